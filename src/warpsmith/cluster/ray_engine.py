"""Ray as it is used here: found, started or joined, its nodes as slots for workers, an actor in each slot.

In: an address, a target's device. Out: slots, each with the resources of one worker, and actor handles. Placement, restarts and the
death of nodes are Ray's; nothing here schedules.
"""

from __future__ import annotations

import logging
import os
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from .messages import Setup
from .settings import LOCAL, RaySettings

STORE_BYTES = 200 << 20  # of a Ray that is started here: runs are text
ACCELERATOR = "accelerator_type:"  # Ray's resource of nodes with one
CALLS_AT_ONCE = 3  # of an actor: a run, a request to stop, the clock


@dataclass(frozen=True)
class Slot:
    """Room for one worker on a node."""

    node_id: str
    host: str
    cpus: float
    gpus: float
    share: int
    shares: int

    @property
    def key(self) -> tuple[str, int]:
        return self.node_id, self.share

    @property
    def name(self) -> str:
        lane = f"/{self.share + 1}" if self.shares > 1 else ""
        return f"{self.host}-{self.node_id[:4]}{lane}"


def load_ray() -> Any:
    """Import Ray. Raises UsageError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError("Ray is not installed: pip install 'warpsmith[ray]'") from error
    return ray


@contextmanager
def join_cluster(settings: RaySettings) -> Iterator[Any]:
    """Join the cluster, or start one here; give Ray's module. A cluster that this process had joined before stays joined.

    Raises UsageError where there is no cluster at the address.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if settings.starts_here:
        options |= {"object_store_memory": STORE_BYTES, "include_dashboard": False}
    try:
        ray.init(address=settings.address, **options)
    except (OSError, RuntimeError, ValueError, TimeoutError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"no Ray cluster at {settings.address}: {reason}; `ray start --head` starts one, --ray {LOCAL} one on this machine"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def list_slots(ray: Any, device: str, settings: RaySettings) -> list[Slot]:
    """List the slots of the nodes that are alive: on a CPU one a node, with all its processors; else `lanes` for each GPU."""
    slots: list[Slot] = []
    for node in ray.nodes():
        resources = node["Resources"]
        if not node["Alive"] or not _has_accelerator(resources, settings.accelerator):
            continue
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        shares = min(cpus, 1) if device == "cpu" else gpus * settings.lanes
        for share in range(shares):
            need = (float(cpus), 0.0) if device == "cpu" else (float(cpus // shares), 1.0 / settings.lanes)
            slots.append(Slot(node["NodeID"], node["NodeManagerHostname"], *need, share, shares))
    return slots


def _has_accelerator(resources: dict[str, float], name: str) -> bool:
    return not name or f"{ACCELERATOR}{name}" in resources or name in resources


def start_actor(ray: Any, slot: Slot, setup: Setup, settings: RaySettings) -> Any:
    """Start a worker in its slot; Ray restarts it when its process ends, and not when its node does."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    options = {
        "num_cpus": slot.cpus, "num_gpus": slot.gpus, "max_restarts": -1, "max_task_retries": 0,
        "max_concurrency": CALLS_AT_ONCE,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(slot.node_id, soft=False),
    }  # fmt: skip
    return (
        ray.remote(pkgutil.resolve_name(settings.worker)).options(**options).remote(setup.model_dump_json())
    )
