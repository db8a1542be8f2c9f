#!/usr/bin/env bash
# Judges the bundles of this kit, one after the other: run.sh start SECONDS [OPTION of `warpsmith bundle run` …]
set -euo pipefail
end=$((SECONDS + $1))
status=0
for bundle in "$KIT"/bundles/*; do
    left=$((end - SECONDS))
    [ "$left" -gt 0 ] || break
    "$PYTHON" -m warpsmith bundle run "$bundle" --out "$RESULTS/results/$(basename "$bundle")" --limit-time "$left" "${@:2}" || status=$?
done
exit "$status"
