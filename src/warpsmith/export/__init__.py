"""A verified winner as files that work without warpsmith: a KernelBench file, an importable package, bare
source.
"""

from .kernelbench import to_kernelbench
from .package import to_package
from .source import list_source_files, to_source
from .winner import FORMS, export_winner

__all__ = ["FORMS", "export_winner", "list_source_files", "to_kernelbench", "to_package", "to_source"]
