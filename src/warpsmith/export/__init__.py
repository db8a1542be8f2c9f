"""A verified winner as files that work without warpsmith: a KernelBench file, an importable package with its wheel, bare
source, a folder for the Hugging Face `kernels` library, a patch of the user's own source.
"""

from .hf_kernel import to_hf_kernel
from .kernelbench import to_kernelbench
from .package import to_package
from .patch import to_patch
from .source import list_source_files, to_source
from .winner import FORMS, export_winner

__all__ = [
    "FORMS",
    "export_winner",
    "list_source_files",
    "to_hf_kernel",
    "to_kernelbench",
    "to_package",
    "to_patch",
    "to_source",
]
