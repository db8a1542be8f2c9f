#!/usr/bin/env bash
# Judges the files under $PATHS that differ from $BASE (all of them without it) and that name their task; the table goes to the job's summary.
set -euo pipefail

mapfile -t paths < <(grep -v '^[[:space:]]*$' <<<"${PATHS:-.}")
if [ -n "${BASE:-}" ]; then
    git cat-file -e "$BASE^{commit}" 2>/dev/null || {
        echo "::error::the base commit $BASE is not here: check out with fetch-depth: 0" >&2
        exit 2
    }
    mapfile -d '' -t files < <(git diff --name-only -z --diff-filter=d "$BASE...HEAD" -- "${paths[@]}")
else
    mapfile -d '' -t files < <(git ls-files -z -- "${paths[@]}")
fi
if [ ${#files[@]} = 0 ]; then
    echo "no file under ${paths[*]} was changed: nothing to judge"
    exit 0
fi
exec warpsmith judge-files --target "${TARGET:-cpu}" --baselines "${BASELINES:-eager}" --json "${JSON:-warpsmith-verdicts.json}" \
    --markdown "${GITHUB_STEP_SUMMARY:-/dev/null}" -- "${files[@]}"
