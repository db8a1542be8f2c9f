#!/usr/bin/env bash
# Does the work of this kit (work.sh) on a machine without the internet:
#   run.sh start SECONDS [ARGUMENT …]   install, work for SECONDS in the background, show for $WAIT seconds (540) what is said
#   run.sh wait SECONDS                 show what is said since
# Both end earlier when the work does, with its exit status, and leave what there is of results as $OUT/results.tgz. The work
# outlives the command that started it; what is left when its time is up goes on with `start`. With an earlier results.tgz
# beside this script it goes on from there, where the bundles are the same. What may be set: OUT (else it is the work folder),
# WORK (the work folder), PYTHON. work.sh is given KIT, SOURCE, RESULTS and PYTHON; folders of RESULTS that are named bundles
# or cache are not packed.
set -Eeuo pipefail
trap 'echo "error: line $LINENO of run.sh failed" >&2' ERR
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-${TMPDIR:-/tmp}/warpsmith-kit}
out=${OUT:-$work}
results=$work/out
log=$work/work.log
export KIT=$here SOURCE=$work/warpsmith RESULTS=$results PYTHON=${PYTHON:-python3}

usage() {
    echo "error: run.sh start SECONDS [ARGUMENT …], or run.sh wait SECONDS; seconds are whole numbers above 0" >&2
    exit 2
}

whole() {
    [[ ${1:-} =~ ^[1-9][0-9]*$ ]] || usage
}

# Work that has left its status is over, even if nobody has waited for its process.
running() {
    [ -e "$work/pid" ] && [ ! -s "$work/status" ] && kill -0 "$(cat "$work/pid")" 2>/dev/null
}

install() {
    local kit
    kit=$(sha256sum "$here"/warpsmith.tar.gz; cat "$here"/wheels/wheels.txt 2>/dev/null || echo "no wheels")
    if [ "$(cat "$work/installed" 2>/dev/null)" != "$kit" ]; then
        rm -rf "$work/site" "$SOURCE"
        mkdir -p "$work/site" "$SOURCE"
        if [ -d "$here/wheels" ]; then
            "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$here"/wheels/*.whl
        fi
        tar xzf "$here/warpsmith.tar.gz" -C "$SOURCE"
        "$PYTHON" -m compileall -q -j 0 "$work/site" "$SOURCE/src" || true
        echo "$kit" > "$work/installed"
    fi
    mkdir -p "$results"
}

# Results of other bundles are put aside: they cannot be gone on with.
take_up() {
    if [ -e "$here/results.tgz" ] && [ ! -e "$work/taken" ]; then
        tar xzf "$here/results.tgz" -C "$results"
        touch "$work/taken"
    fi
    (cd "$results" && find . -path '*/results/*/bundle/signature.json') | while read -r signature; do
        folder=$results/${signature%/bundle/signature.json}
        name=$(basename "$folder")
        if ! cmp -s "$results/$signature" "$here/bundles/$name/signature.json"; then
            mkdir -p "$results/aside"
            rm -rf "$results/aside/$name"
            mv "$folder" "$results/aside/$name"
        fi
    done
}

start() { # SECONDS [ARGUMENT …]
    rm -f "$work/status"
    export PYTHONPATH="$SOURCE/src:$work/site${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
    # shellcheck disable=SC2016
    setsid nohup bash -c 'echo $$ > "$1/pid"; bash "${@:2}"; echo $? > "$1/status"' run "$work" "$here/work.sh" "$@" \
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
    cp "$log" "$results/"
    # Files that are written meanwhile are no fault: tar then ends with 1.
    tar czf "$work/results.part" -C "$results" --exclude=bundles --exclude=cache . || [ $? -eq 1 ]
    mv "$work/results.part" "$out/results.tgz"
    echo "$(date +%T): $(du -h "$out/results.tgz" | cut -f1) in results.tgz; $(running && echo "the work goes on" || echo "the work has ended")"
}

case ${1:-} in
start)
    whole "${2:-}"
    seconds=${WAIT:-540}
    whole "$seconds"
    if running; then
        echo "work is under way: it goes on"
    else
        mkdir -p "$work"
        rm -f "$work/pid"
        install
        take_up
        start "${@:2}"
    fi
    ;;
wait)
    whole "${2:-}"
    [ $# -eq 2 ] || usage
    if [ ! -e "$work/pid" ]; then
        echo "error: no work was started: run.sh start SECONDS" >&2
        exit 2
    fi
    seconds=$2
    ;;
*) usage ;;
esac
follow "$seconds"
pack_results
running || exit "$(cat "$work/status" 2>/dev/null || echo 1)"
