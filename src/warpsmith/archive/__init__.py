"""Every result ever judged, failures too, with lineage, sources, environments and seeds.

One SQLite file, or a PostgreSQL database that several machines share. In come the records of a run as they are
finished; out come winners, what was judged already, lineages and sources, what models were asked, and lessons.
The archive calls nobody: it stores, finds and transfers.
"""

from .entries import Entry, KeptLesson, RunRecord
from .store import Archive
from .transfer import ImportCounts, export_jsonl, import_jsonl

__all__ = ["Archive", "Entry", "ImportCounts", "KeptLesson", "RunRecord", "export_jsonl", "import_jsonl"]
