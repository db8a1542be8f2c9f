"""Every result ever judged, failures too, with lineage, sources, environments and seeds: one SQLite file.

In come the records of a run as they are finished; out come winners, what was judged already, lineages and
sources. The archive calls nobody: it stores, finds and transfers.
"""

from .entries import Entry, RunRecord
from .store import Archive
from .transfer import ImportCounts, export_jsonl, import_jsonl

__all__ = ["Archive", "Entry", "ImportCounts", "RunRecord", "export_jsonl", "import_jsonl"]
