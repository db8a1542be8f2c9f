"""Import torchvision where its compiled library does not load.

torchvision's wheels are built for one build of torch. Beside another one (a CPU build, for instance) its library does
not load, and `import torchvision` ends in "operator torchvision::nms does not exist", because its Python code
registers shape functions for two operators of that library. Classification, segmentation and video models need none
of them, so the two are declared here, without an implementation, and the import goes through. A model that does call
one (a detector that removes overlapping boxes) ends in torch's own "not implemented" error.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

_OPERATORS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def import_torchvision() -> ModuleType | None:
    """torchvision, with its operators declared if its library does not load; None where it is not installed."""
    try:
        return importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return None
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # half imported
    for name, schema in _OPERATORS.items():
        torch.library.define(f"torchvision::{name}", schema)
    return importlib.import_module("torchvision")
