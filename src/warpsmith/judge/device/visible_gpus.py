"""Lists the GPUs that this process may use, by UUID: indexes mean another GPU as soon as CUDA_VISIBLE_DEVICES names fewer.

In: CUDA_VISIBLE_DEVICES, and what nvidia-smi lists. Out: values for CUDA_VISIBLE_DEVICES of processes that get one GPU each.
"""

from __future__ import annotations

import os
import subprocess

VARIABLE = "CUDA_VISIBLE_DEVICES"
QUERY = ("nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
TIMEOUT_S = 20


def list_visible_gpus() -> list[str]:
    """List the visible GPUs in CUDA's order. An entry that nvidia-smi does not list, such as a MIG device, stays as it is written.
    Empty where there is none.
    """
    uuids = _query_uuids()
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return list(uuids.values())
    gpus: list[str] = []
    for entry in map(str.strip, setting.split(",")):
        if not entry or entry.startswith("-") or (entry.isdigit() and uuids and entry not in uuids):
            break  # CUDA ignores what follows an entry that names nothing
        full_names = [uuid for uuid in uuids.values() if uuid.startswith(entry)]
        gpus.append(uuids.get(entry) or (full_names[0] if len(full_names) == 1 else entry))
    return list(dict.fromkeys(gpus))


def _query_uuids() -> dict[str, str]:
    """Ask nvidia-smi for the UUID of each index; empty where it does not answer."""
    try:
        completed = subprocess.run(QUERY, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if completed.returncode != 0:
        return {}
    rows = (line.split(",") for line in completed.stdout.splitlines())
    return {index.strip(): uuid.strip() for index, uuid in (row for row in rows if len(row) == 2)}
