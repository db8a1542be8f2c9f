#!/usr/bin/env bash
# Judges what lab/h200_pack.py packed into this folder, on a machine with a GPU and without the internet:
#   run.sh start SECONDS LANES [WAIT]   install, judge for SECONDS in the background, show for WAIT seconds (540) what is said
#   run.sh wait SECONDS                 show what is said since
# Both end earlier when the campaign does, with its exit status, and leave what there is of results as $OUT/camp.tgz. A campaign
# outlives the command that started it; one whose time is up goes on with `start`. With an earlier camp.tgz beside this script
# it goes on from there, where the bundles are the same. What may be set: OUT (else it is the work folder), WORK (the
# work folder), PYTHON, CORES (threads of a lane), OPTIONS (more of h200_campaign.py).
set -Eeuo pipefail
trap 'echo "error: line $LINENO of run.sh failed" >&2' ERR
TASKS=()
DTYPE=""
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-${TMPDIR:-/tmp}/warpsmith-campaign}
out=${OUT:-$work}
python=${PYTHON:-python3}
camp=$work/camp/$DTYPE
log=$work/camp/campaign.log

usage() {
    echo "error: run.sh start SECONDS LANES [WAIT], or run.sh wait SECONDS; all are whole numbers above 0" >&2
    exit 2
}

whole() {
    for given in "$@"; do [[ $given =~ ^[1-9][0-9]*$ ]] || usage; done
}

# One that has left its status is over, even if nobody has waited for its process.
running() {
    [ -e "$work/pid" ] && [ ! -s "$work/status" ] && kill -0 "$(cat "$work/pid")" 2>/dev/null
}

install() {
    local pack
    pack=$(sha256sum "$here"/warpsmith.tar.gz; cat "$here"/wheels/wheels.txt 2>/dev/null || echo "no wheels")
    if [ "$(cat "$work/installed" 2>/dev/null)" != "$pack" ]; then
        rm -rf "$work/site" "$work/warpsmith"
        mkdir -p "$work/site" "$work/warpsmith"
        if [ -d "$here/wheels" ]; then
            "$python" -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$here"/wheels/*.whl
        fi
        tar xzf "$here/warpsmith.tar.gz" -C "$work/warpsmith"
        "$python" -m compileall -q -j 0 "$work/site" "$work/warpsmith/src" || true
        echo "$pack" > "$work/installed"
    fi
    mkdir -p "$camp/results"
    rm -rf "$camp/bundles"
    cp -R "$here/bundles" "$camp/bundles"
}

# Results of other bundles are put aside: they cannot be gone on with.
take_up() {
    if [ -e "$here/camp.tgz" ] && [ ! -e "$work/taken" ]; then
        tar xzf "$here/camp.tgz" -C "$work/camp"
        touch "$work/taken"
    fi
    for results in "$camp"/results/*; do
        name=$(basename "$results")
        if [ -e "$results" ] && ! cmp -s "$results/bundle/signature.json" "$camp/bundles/$name/signature.json"; then
            mkdir -p "$camp/aside"
            rm -rf "$camp/aside/$name"
            mv "$results" "$camp/aside/$name"
        fi
    done
}

start() { # SECONDS LANES
    local cores tasks=()
    for task in "${TASKS[@]}"; do tasks+=(--task "$task"); done
    cores=$((($(nproc) - 2) / $2))
    rm -f "$work/status"
    export PYTHONPATH="$work/warpsmith/src:$work/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
    # shellcheck disable=SC2016,SC2086
    setsid nohup bash -c 'echo $$ > "$1/pid"; shift; "${@:2}"; echo $? > "$1"' run "$work" "$work/status" \
        "$python" "$work/warpsmith/lab/h200_campaign.py" "$here/kernelbench" "$work/camp" --seconds "$1" --lanes "$2" \
        --cores "${CORES:-$((cores > 2 ? cores : 2))}" ${DTYPE:+--dtype "$DTYPE"} --in-order "${tasks[@]}" ${OPTIONS:-} \
        < /dev/null >> "$log" 2>&1 &
    until [ -s "$work/pid" ]; do sleep 0.1; done
}

show() { # what the log has more than $work/shown lines
    local from to
    from=$(cat "$work/shown" 2>/dev/null || echo 0)
    to=$(wc -l < "$log")
    if [ "$to" -gt "$from" ]; then sed -n "$((from + 1)),${to}p" "$log"; fi
    echo "$to" > "$work/shown"
}

follow() { # SECONDS
    local end=$((SECONDS + $1))
    while running && [ "$SECONDS" -lt "$end" ]; do
        show
        sleep 0.2
    done
    show
}

pack_results() {
    mkdir -p "$out"
    # Files that are written meanwhile are no fault: tar then ends with 1.
    tar czf "$work/camp.part" -C "$work/camp" --exclude=bundles --exclude=cache . || [ $? -eq 1 ]
    mv "$work/camp.part" "$out/camp.tgz"
    echo "$(date +%T): $(du -h "$out/camp.tgz" | cut -f1) of results in camp.tgz; $(running && echo "the campaign goes on" || echo "the campaign has ended")"
}

case ${1:-} in
start)
    whole "${@:2}"
    [ $# -eq 3 ] || [ $# -eq 4 ] || usage
    if running; then
        echo "a campaign is running: it goes on"
    else
        mkdir -p "$work/camp"
        rm -f "$work/pid"
        install
        take_up
        start "$2" "$3"
    fi
    seconds=${4:-540}
    ;;
wait)
    whole "${@:2}"
    [ $# -eq 2 ] || usage
    if [ ! -e "$work/pid" ]; then
        echo "error: no campaign was started: run.sh start SECONDS LANES" >&2
        exit 2
    fi
    seconds=$2
    ;;
*) usage ;;
esac
follow "$seconds"
pack_results
running || exit "$(cat "$work/status" 2>/dev/null || echo 1)"
