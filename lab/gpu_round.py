"""Runs the measurements of a plan on a machine with GPUs that is there for a short time only, and keeps what they wrote.

    python3 lab/gpu_round.py start lab/gpu_round.toml --out FOLDER [--gpus 2]      # in the background; ends with the machine
    python3 lab/gpu_round.py wait --out FOLDER [--seconds 500] [--pack FILE]       # until all steps are done, or so long

A plan has a queue of steps for each GPU; `--gpus` says how many there are, and each of them takes the next queue that nobody has taken. A
step is a name, a command for bash and the seconds after which it is stopped. It runs in the repository's root with `CUDA_VISIBLE_DEVICES` set, `OUT`
naming the folder, and its output goes to `FOLDER/<name>.log`. Steps that ended are not run again by a second `start`, so that a plan goes on
on another machine from the folder that came back. `wait` prints how each step stands, and packs the folder. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STATES = "steps.json"
KILLED_AFTER_S = 10  # what does not end when it is asked to
LOOK_S = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Start a plan in the background, run it, or wait for it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("start", "run", "wait"))
    parser.add_argument("plan", nargs="?", type=Path, help="a TOML file; of start and run")
    parser.add_argument("--out", type=Path, required=True, help="folder for logs and results")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500.0, help="how long to wait at most")
    parser.add_argument("--pack", type=Path, help="a .tar.gz of the folder, written when the wait is over")
    options = parser.parse_args(arguments)
    if options.verb != "wait" and options.plan is None:
        parser.error("which plan? give a TOML file")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.verb == "start":
        return start(options.plan, options.out, options.gpus)
    if options.verb == "run":
        return run(read_plan(options.plan), options.out, options.gpus)
    return wait(options.out, options.seconds, options.pack)


def read_plan(path: Path) -> list[list[dict[str, Any]]]:
    """Read the queues of steps; every step has a name of its own, a command and a limit in seconds."""
    queues = tomllib.loads(path.read_text(encoding="utf-8"))["queue"]
    steps = [step for queue in queues for step in queue["step"]]
    names = [step["name"] for step in steps]
    if len(set(names)) != len(names) or not all(step["limit_s"] > 0 and step["command"] for step in steps):
        raise SystemExit(f"error: {path}: each step needs a name of its own, a command and a limit_s")
    return [queue["step"] for queue in queues]


def start(plan: Path, out: Path, gpus: int) -> int:
    """Run the plan in a session of its own, which outlives this command."""
    read_plan(plan)
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        "run",
        str(plan),
        "--out",
        str(out),
        "--gpus",
        str(gpus),
    ]
    with (out / "round.log").open("ab") as log:
        started = subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    (out / "round.pid").write_text(str(started.pid))
    print(f"started: {started.pid}")
    return 0


def run(queues: list[list[dict[str, Any]]], out: Path, gpus: int) -> int:
    """Play all queues, so many side by side as there are GPUs."""
    states = read_states(out)
    for step in (step for queue in queues for step in queue):
        if states.get(step["name"], {}).get("state") != "ended":
            states[step["name"]] = {"state": "waits"}
    write_states(out, states)
    free = list(range(gpus))

    def play(queue: list[dict[str, Any]]) -> None:
        gpu = free.pop()
        for step in queue:
            if states[step["name"]]["state"] != "ended":
                states[step["name"]] = {"state": "runs", "gpu": gpu, "began": time.time()}
                write_states(out, states)
                states[step["name"]] = run_step(step, out, gpu)
                write_states(out, states)
        free.append(gpu)

    with ThreadPoolExecutor(gpus) as pool:
        list(pool.map(play, queues))
    return 0


def run_step(step: dict[str, Any], out: Path, gpu: int) -> dict[str, Any]:
    """Run one command, and stop it, with all that it started, at its limit."""
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": str(gpu),
        "OUT": str(out.resolve()),
        "PYTHONUNBUFFERED": "1",
    }
    began = time.time()
    with (out / f"{step['name']}.log").open("ab") as log:
        # `timeout` has a process group of its own and signals all of it.
        command = ["timeout", "-k", str(KILLED_AFTER_S), str(step["limit_s"]), "bash", "-c", step["command"]]
        code = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        ).returncode
    return {"state": "ended", "gpu": gpu, "code": code, "seconds": round(time.time() - began)}


def wait(out: Path, seconds: float, pack: Path | None) -> int:
    """Wait until every step has ended, the plan's process is gone, or the time is over; then say how each stands."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and is_running(out):
        time.sleep(LOOK_S)
    states = read_states(out)
    for name, state in states.items():
        print(f"{name:32} " + " ".join(f"{key} {value}" for key, value in state.items()))
    if pack is not None:
        with tarfile.open(pack, "w:gz") as packed:
            packed.add(out, arcname=out.name)
    return 0 if states and all(state.get("code") == 0 for state in states.values()) else 1


def is_running(out: Path) -> bool:
    """Whether the plan's process is there."""
    try:
        pid = int((out / "round.pid").read_text())
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, ValueError):
        return False


def read_states(out: Path) -> dict[str, dict[str, Any]]:
    """How each step stands; none of a new folder."""
    path = out / STATES
    states: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return states


def write_states(out: Path, states: dict[str, dict[str, Any]]) -> None:
    """Write them whole: a reader sees the old ones or the new ones."""
    partial = out / f"{STATES}.{threading.get_ident()}"
    partial.write_text(json.dumps(dict(states), indent=1))
    partial.replace(out / STATES)


if __name__ == "__main__":
    sys.exit(main())
