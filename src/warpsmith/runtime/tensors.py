"""Torch tensors in values files (see `tasks.values`), under the name the judge's torch processes use."""

from __future__ import annotations

from ..tasks.values import check_tensor, copied_to, open_tensors, torch_dtype, write_tensors

__all__ = ["check_tensor", "copied_to", "open_tensors", "torch_dtype", "write_tensors"]
