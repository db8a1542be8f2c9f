"""Which of the expert's CPU kernels build by which C++ compiler, for AVX2 and for AVX-512.

    python benchmarks/emitted_units.py record rows.jsonl --cache /tmp/graphs --texts /tmp/texts
    python benchmarks/compilers.py build rows.jsonl --texts /tmp/texts --compilers g++ clang++ --out results/code/compilers.json
    python benchmarks/compilers.py page results/code/compilers.json

One unit of each family and technique is compiled and linked by each compiler for each instruction set (`-march=x86-64-v3`, `x86-64-v4`, in the place of
this machine's). That it builds is all that this says: values are compared by `tests/kernels/test_clang.py` and the judge.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from architectures import Case, Row, choose_units, make_parser

from warpsmith.records import Unit
from warpsmith.targets.cpu import CpuTarget

SETS = {"AVX2": "-march=x86-64-v3", "AVX-512": "-march=x86-64-v4"}


class SetTarget(CpuTarget):
    """Builds for an instruction set, whatever this machine has; nothing that it builds is loaded."""

    def __init__(self, folder: Path, compiler: str, name: str) -> None:
        super().__init__(folder / name, compiler=compiler, threads=2)
        self.set = name

    def flags(self, unit: Unit) -> tuple[str, ...]:
        return (*super().flags(unit), SETS[self.set])  # the last one counts


def build_everywhere(case: Case, targets: Sequence[SetTarget]) -> list[Row]:
    task, unit, graph = case
    rows = []
    for target in targets:
        build = target.build(unit, graph, "main")
        row = {"task": task, "family": unit.family, "technique": unit.technique}
        row |= {"compiler": target.signature, "set": target.set, "built": build.ok}
        rows.append(row | {"says": [d.message for d in build.diagnostics][:1] if not build.ok else []})
    print(f"{unit.family} {unit.technique}: {sum(r['built'] for r in rows)} of {len(rows)}", flush=True)
    return rows


def run_build(options: argparse.Namespace) -> int:
    targets = [SetTarget(options.builds, compiler, name) for compiler in options.compilers for name in SETS]
    cases = choose_units(options.rows, options.texts, "cpu")
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for some in pool.map(partial(build_everywhere, targets=targets), cases) for row in some]
    options.out.write_text(
        json.dumps({"compilers": list(dict.fromkeys(t.signature for t in targets)), "rows": rows}, indent=1)
        + "\n"
    )
    failed = [r for r in rows if not r["built"]]
    print(
        "\n".join(f"{r['family']} {r['technique']}, {r['compiler']}, {r['set']}: {r['says']}" for r in failed)
    )
    return int(bool(failed))


def write_page(options: argparse.Namespace) -> int:
    held = json.loads(options.file.read_text())
    columns = [(c, s) for c in held["compilers"] for s in SETS]
    cells: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for row in held["rows"]:
        cells.setdefault((row["family"], row["technique"]), {})[row["compiler"], row["set"]] = (
            "yes" if row["built"] else "no"
        )
    failed = [r for r in held["rows"] if not r["built"]]
    lines = [
        "# CPU kernels by compiler", "",
        f"{len(held['rows']) - len(failed)} of {len(held['rows'])} builds succeed. That they build is all that this says.", "",
        *(f"    {line.strip()}" for line in (__doc__ or "").splitlines() if line.strip().startswith("python ")), "",
        f"| family | technique | {' | '.join(f'{c}, {s}' for c, s in columns)} |", f"|---|---|{'---|' * len(columns)}",
        *(f"| {f} | {t} | {' | '.join(by.get(c, '') for c in columns)} |" for (f, t), by in sorted(cells.items())),
        *(f"\n{r['family']} {r['technique']}, {r['compiler']}, {r['set']}: `{r['says']}`" for r in failed),
    ]  # fmt: skip
    options.file.with_suffix(".md").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    parser, build = make_parser(__doc__, "warpsmith-compilers", run_build, write_page)
    build.add_argument("--compilers", nargs="+", default=["g++", "clang++"])
    options = parser.parse_args()
    sys.exit(options.run(options))
