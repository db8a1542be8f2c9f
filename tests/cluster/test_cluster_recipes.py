"""The recipes for Slurm and KubeRay: they parse, their commands exist, and the script starts what it says, in this order.

Slurm and Ray are stand-ins that write down how they were called: there is no Slurm here.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_docs import problem_of

DOCKER = Path(__file__).parents[2] / "docker"
SCRIPT = DOCKER / "slurm.sbatch"
NOTE = 'echo "$(basename "$0") $*" >> "$CALLS"\n'
STAND_INS = {
    "scontrol": 'for n in $(seq "$SLURM_JOB_NUM_NODES"); do echo "node$n"; done\n',
    "srun": NOTE + 'case "$*" in *--head*) touch "$CALLS.up";; esac\nexec sleep 60\n',
    "ray": NOTE + 'test -e "$CALLS.up"\n',
    # It ends when all steps have begun, for its end ends them.
    "warpsmith": NOTE + 'until [ "$(grep -c ^srun "$CALLS")" -ge "$STEPS" ]; do /bin/sleep 0.05; done\n',
    "sleep": 'if [ "$1" = 60 ]; then exec /bin/sleep 60; fi\nexec /bin/sleep 0.05\n',
}


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """An environment in which Slurm and Ray are stand-ins."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}")
        (folder / name).chmod(0o755)
    return {
        "PATH": f"{folder}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls"), "SLURM_JOB_NODELIST": "node[1-3]",
        "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": "/home/me", "STEPS": "2",
    }  # fmt: skip


def run_script(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(SCRIPT), "serving", "--target", "cuda"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def read_calls(environment: dict[str, str]) -> list[str]:
    return Path(environment["CALLS"]).read_text().splitlines()


def test_the_script_for_slurm_starts_the_head_then_the_others_then_the_suite(slurm: dict[str, str]) -> None:
    done = run_script(slurm)
    assert done.returncode == 0, done.stderr
    calls = [call for call in read_calls(slurm) if not call.startswith("ray status")]
    assert calls[0] == "srun --nodes=1 --ntasks=1 --nodelist=node1 ray start --head --port=6379 --block"
    # The second step and the suite start side by side.
    assert set(calls[1:]) == {
        "srun --nodes=2 --ntasks=2 --exclude=node1 ray start --address=node1:6379 --block",
        "warpsmith suite serving --target cuda --ray node1:6379 --archive /home/me/archive.db --out /home/me/suite-7.html",
    }
    assert problem_of(next(call for call in calls if call.startswith("warpsmith")).split()) == ""


def test_one_node_is_enough_for_slurm(slurm: dict[str, str]) -> None:
    done = run_script(slurm | {"SLURM_JOB_NUM_NODES": "1", "STEPS": "1"})
    assert done.returncode == 0, done.stderr
    assert not [call for call in read_calls(slurm) if "--exclude" in call]


def test_a_head_that_does_not_come_up_ends_the_job(slurm: dict[str, str]) -> None:
    (Path(slurm["PATH"].partition(":")[0]) / "srun").write_text("#!/bin/bash\nexec sleep 60\n")
    done = run_script(slurm | {"RAY_ATTEMPTS": "3"})
    assert done.returncode == 1
    assert done.stderr.strip() == "no Ray head on node1 after 3 attempts"
    assert not [call for call in read_calls(slurm) if call.startswith("warpsmith")]


def test_the_script_is_bash_and_asks_for_nodes() -> None:
    assert subprocess.run(["bash", "-n", str(SCRIPT)]).returncode == 0
    assert "#SBATCH --nodes=" in SCRIPT.read_text()
    assert os.access(SCRIPT, os.R_OK)


@pytest.fixture
def job() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "kuberay.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_entrypoint_for_kuberay_is_a_command(job: dict[str, Any]) -> None:
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert problem_of(job["spec"]["entrypoint"].split()) == ""


def test_pods_for_kuberay_mount_what_they_name_and_share_one_environment(job: dict[str, Any]) -> None:
    cluster = job["spec"]["rayClusterSpec"]
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    pods = [group["template"]["spec"] for group in (head, workers)]
    for pod in pods:
        (container,) = pod["containers"]
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert pods[0]["containers"][0]["env"] == pods[1]["containers"][0]["env"]
    assert pods[0]["containers"][0]["image"] == pods[1]["containers"][0]["image"]
    assert head["rayStartParams"]["num-cpus"] == "0"  # the driver's machine plays nothing
    limits = pods[1]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == 1
    folders = {m["mountPath"] for m in pods[0]["containers"][0]["volumeMounts"]}
    outputs = [word for word in job["spec"]["entrypoint"].split() if word.startswith("/")]
    assert outputs
    assert all(str(Path(output).parent) in folders for output in outputs)
