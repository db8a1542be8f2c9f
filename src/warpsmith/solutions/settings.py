"""Torch's settings that hold for a whole process: which library computes, how exactly, with how many threads.

In: nothing. Out: their values by name. A solution may set them when it is loaded, as its user then sees; a call leaves them as
they were, or it changes what everything else in the process computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

READERS: Mapping[str, Callable[[], Any]] = {
    "num_threads": torch.get_num_threads,
    "default_dtype": torch.get_default_dtype,
    "float32_matmul_precision": torch.get_float32_matmul_precision,
    "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    "anomaly_detection": torch.is_anomaly_enabled,
    "autocast of the CPU": lambda: torch.is_autocast_enabled("cpu"),
    "autocast of CUDA": lambda: torch.is_autocast_enabled("cuda"),
    "backends.mkldnn.enabled": torch._C._get_mkldnn_enabled,
    "backends.nnpack.enabled": torch._C._get_nnpack_enabled,
    "backends.cudnn.enabled": torch._C._get_cudnn_enabled,
    "backends.cudnn.benchmark": torch._C._get_cudnn_benchmark,
    "backends.cudnn.deterministic": torch._C._get_cudnn_deterministic,
    "backends.cudnn.allow_tf32": torch._C._get_cudnn_allow_tf32,
    "backends.cuda.flash_sdp": torch._C._get_flash_sdp_enabled,
    "backends.cuda.mem_efficient_sdp": torch._C._get_mem_efficient_sdp_enabled,
    "backends.cuda.math_sdp": torch._C._get_math_sdp_enabled,
}


def read_settings() -> dict[str, Any]:
    """Return every setting's value, by the name that torch gives it."""
    return {name: read() for name, read in READERS.items()}


def find_changed(settings: Mapping[str, Any]) -> str:
    """Name the first setting whose value is not that of `settings`, else empty."""
    return next((name for name, value in settings.items() if READERS[name]() != value), "")


__all__ = ["find_changed", "read_settings"]
