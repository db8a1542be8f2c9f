#!/usr/bin/env bash
# The work of a kit that lab/h200_pack.py packed: run.sh start SECONDS LANES. What may be set: CORES (threads of a lane),
# OPTIONS (more of h200_campaign.py).
set -euo pipefail
TASKS=()
DTYPE=""
[[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { echo "error: run.sh start SECONDS LANES" >&2; exit 2; }
tasks=()
for task in "${TASKS[@]}"; do tasks+=(--task "$task"); done
mkdir -p "$RESULTS/$DTYPE/results"
rm -rf "$RESULTS/$DTYPE/bundles"
cp -R "$KIT/bundles" "$RESULTS/$DTYPE/bundles"
cores=$((($(nproc) - 2) / $2))
# shellcheck disable=SC2086
exec "$PYTHON" "$SOURCE/lab/h200_campaign.py" "$KIT/kernelbench" "$RESULTS" --seconds "$1" --lanes "$2" \
    --cores "${CORES:-$((cores > 2 ? cores : 2))}" ${DTYPE:+--dtype "$DTYPE"} --in-order "${tasks[@]}" ${OPTIONS:-}
