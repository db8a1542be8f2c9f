"""Whether each task of a suite that comes with the package tells right from wrong, at the shape that its file calls small.

    python benchmarks/serving_admission.py

What `warpsmith tasks check` does: the file is loaded with the small variant's sizes in the place of its own, and with the other variants as they
are; wrong answers (zeros, a constant, a stale replay, an input handed back, one op dropped, a low-precision twin) are tried on
the smallest; the module must give what its exported graph gives. The sizes that are served are too large for a CPU.

Writes <out>.jsonl, one row a task as it is done (the same command goes on where it was stopped, and tries changed files again), and
<out>.md.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from item_processes import Columns, Items, add_run_options, follow_parent, seconds_left, write_row
from json_lines import append_line, known_rows
from kernelbench_tasks import describe_graph
from lanes import divide
from pages import describe_machine, list_table, write_page

from warpsmith.api import check_task
from warpsmith.errors import WarpsmithError
from warpsmith.tasks.load import load_suite
from warpsmith.tasks.source import constants, parse

Row = dict[str, Any]
COLUMNS = Columns(item="task", seconds="seconds")
VARIANT = "small"


def hash_text(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def drop_stale_rows(rows_file: Path, files: Mapping[str, Path]) -> None:
    """Keep the rows of the texts that the files have now."""
    rows = [
        r for n, r in known_rows(rows_file).items() if n in files and r.get("text") == hash_text(files[n])
    ]
    rows_file.unlink(missing_ok=True)
    for row in rows:
        append_line(rows_file, row)


def check_small(file: Path) -> Row:
    """One row, computed in this process."""
    sizes = constants(parse(file.read_text(), file.name))["VARIANTS"][VARIANT]
    try:
        task, admission = check_task(str(file), overrides=sizes)
    except WarpsmithError as error:
        return {"status": "refused", "reason": str(error).replace(str(file), file.name)}
    return {
        "status": "admitted" if admission.admitted else "quarantined", "reason": "; ".join(admission.reasons),
        "mutants": admission.mutants, "overrides": sizes, "ops": len(task.graph.nodes), **describe_graph(task.graph),
    }  # fmt: skip


def markdown(suite: str, rows: Sequence[Row]) -> str:
    admitted = [r for r in rows if r["status"] == "admitted"]
    caught = sum(rule != "equivalent" for r in admitted for rule in r["mutants"].values())
    lines = [
        f"# Admission of suite {suite}\n",
        f"{len(admitted)} of {len(rows)} tasks are admitted: the file loads at every variant, each of {caught} wrong answers fails, and the module gives "
        f"what its exported graph gives. Each task at its variant *{VARIANT}*, whose inputs are listed. On a CPU: {describe_machine()}.\n",
        "*Same*: dropped operations that change no bit on any input tried, which nobody can catch.\n",
    ]
    titles = ("task", "outcome", "inputs", "ops", "wrong answers", "same", "s")
    return "\n".join([*lines, *list_table(titles, map(_cells, rows))]) + "\n"


def _cells(row: Row) -> list[str]:
    outcome = row["status"] + (f": {row['reason']}" if row["reason"] else "")
    mutants = row.get("mutants", {})
    same = [name for name, rule in mutants.items() if rule == "equivalent"]
    return [
        f"`{row['task']}`", outcome, " ".join(row.get("inputs", ())), str(row.get("ops", "–")), str(len(mutants) - len(same)),
        ", ".join(same) or "–", f"{row['seconds']:.1f}",
    ]  # fmt: skip


def main() -> int:
    options = arguments()
    files = {file.stem: file for file in load_suite(options.suite)}
    if options.row:
        follow_parent(options)
        write_row(options, check_small(files[options.item]))
        return 0
    rows_file = options.out.with_suffix(".jsonl")
    items = Items(
        os.path.abspath(__file__), [f"--suite={options.suite}"], options.limit_s, divide(options.jobs, options.cores),
        seconds_left(options), COLUMNS, complete=lambda row: {**row, "text": hash_text(files[row["task"]])},
    )  # fmt: skip
    drop_stale_rows(rows_file, files)
    items.run_rest(list(files), rows_file, options.retry)
    rows = [row for _, row in sorted(known_rows(rows_file).items())]
    write_page(options.out.with_suffix(".md"), markdown(options.suite, rows))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default="serving", help="tasks whose VARIANTS have one named small")
    add_run_options(parser, Path("results/cpu/serving_admission"), limit_s=180.0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
