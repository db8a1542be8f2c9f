"""The rows of `models.py` as a page: gains side by side, parity, and what became of each region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pages import list_table

from warpsmith.report.markdown import escape, fence_code

Row = dict[str, Any]
EAGER, AGAIN, COMPOSED, COMPOSED_COMPILED = "eager", "eager again", "composed", "composed-compiled"
COMPARED = ("compile", "max-autotune", COMPOSED, COMPOSED_COMPILED)
MEANINGS = {
    "win": "Warpsmith's faster variant is surely faster than the fastest of eager and `torch.compile`",
    "over-eager": "surely faster than eager, not surely than the fastest of `torch.compile`",
    "no-win": "not surely faster than eager: the original is kept, or should be",
    "refused": "`optimize_model` says why it does not take the run",
    "too-busy": "the original measured twice differed from itself: the gains of this row say nothing",
    "wrong": "outputs miss the error budget",
    "error": "an exception that names no cause for the user",
    "timeout": "not done within the limit",
}


def render_page(rows: Sequence[Row], command: str, missing: int) -> str:
    """The page. `missing`: workloads that have not been run yet."""
    measured = [row for row in rows if "gains" in row]
    counts = Counter(row["status"] for row in rows)
    others = {name for row in measured for name in row["gains"][EAGER]} - {AGAIN, *COMPARED}
    compared = (*sorted(others), *COMPARED)
    parts = [
        "# Whole models, end to end",
        f"Command: `{command}`",
        *_describe_conditions(rows),
        *([f"**{missing} workloads have not been run yet: the same command goes on.**"] if missing else []),
        f"**{len(rows)} workloads: {', '.join(f'{n} {status}' for status, n in counts.items()) or 'none'}.**",
        "\n".join(f"- **{status}**: {text}" for status, text in MEANINGS.items() if status in counts),
        "## Gains",
        "Medians over eager with 95% intervals, all measured side by side in random order. *composed* is the model that "
        "`optimize_model` returns, *composed-compiled* the same under `torch.compile`; *eager again* is the noise.",
        "\n".join(list_table(
            ("model", "status", "eager", "eager again", *compared, "predicted"),
            (_list_gains(row, compared) for row in measured),
        )),
        "## Against the fastest of eager and torch.compile",
        "\n".join(list_table(("model", "what was found"), ((row["item"], escape(row["reason"])) for row in rows))),
        "## Parity",
        "The share of the judge's error budget that the run's results use; above 100% is wrong. Tokens and losses as they are.",
        "\n".join(list_table(("model", "variant", "of the budget", "tokens equal", "loss"), _list_parity(measured))),
    ]  # fmt: skip
    for row in rows:
        parts += [f"## {row['item']}", *_describe_row(row)]
    return "\n\n".join(part for part in parts if part) + "\n"


def format_gain(ratio: Sequence[float] | None) -> str:
    return "—" if ratio is None else f"{ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]"


def _describe_conditions(rows: Sequence[Row]) -> list[str]:
    conditions = Counter(
        (row["date"], row["hardware"], row["threads"], ", ".join(f"{k} {v}" for k, v in row["versions"].items()))
        for row in rows if "hardware" in row
    )  # fmt: skip
    lines = [
        f"{count} on {date}: {escape(hardware)}; threads: {threads}; {escape(versions)}."
        for (date, hardware, threads, versions), count in sorted(conditions.items())
    ]
    loads = [
        load for row in rows for load in (row.get("load_before"), row.get("load_after")) if load is not None
    ]
    if loads:
        lines.append(
            f"The machine's load, before and after each model: {min(loads):.1f} to {max(loads):.1f}."
        )
    return lines


def _list_gains(row: Row, compared: Sequence[str]) -> list[str]:
    over_eager: Mapping[str, Sequence[float]] = row["gains"][EAGER]
    predicted = f"{row['predicted']:.2f}" if "predicted" in row else "—"
    return [
        row["item"], row["status"], f"{row['medians_ms'][EAGER]:.2f} ms", format_gain(over_eager.get(AGAIN)),
        *(format_gain(over_eager.get(name)) for name in compared), predicted,
    ]  # fmt: skip


def _list_parity(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [
            row["item"], name, f"{parity['error']:.1%}" if parity["ok"] else f"{parity['error']:.3g} times",
            "{} of {}".format(*parity["tokens"]) if "tokens" in parity else "—",
            f"{parity['loss']:.6f}" if "loss" in parity else "—",
        ]
        for row in rows for name, parity in row["parity"].items()
    ]  # fmt: skip


def _describe_row(row: Row) -> list[str]:
    """What a model is, what ran against it, and the end of each region."""
    lines = []
    if "class" in row:
        lines.append(
            f"{row['class']}, {row['family']}: {row['parameters'] / 1e6:.1f} million parameters in {row['dtype']}. "
            f"`optimize_model` took {row.get('optimize_s', 0):g} s of {row['seconds']:g} s."
        )
    lines += [f"{name} did not run: {escape(reason)}" for name, reason in row.get("not_run", {}).items()]
    if row.get("chaos"):
        lines.append(f"Rounding alone: {escape(row['chaos'])}.")
    if row.get("regions"):
        titles = ("region", "layers", "over eager", "predicted for the whole", "in the model", "why not")
        lines.append("\n".join(list_table(titles, map(_list_region, row["regions"]))))
    if "promised" in row:
        lines.append(
            f"The capture promised {row['promised']:.2f}x, the searches predicted {row['predicted']:.2f}x."
        )
    if "captured" in row:
        lines.append(fence_code(row["captured"], "text"))
    if row["status"] in ("error", "timeout"):
        lines.append(fence_code("\n".join(row.get("traceback") or row.get("log") or [row["reason"]]), "text"))
    return lines


def _list_region(region: Mapping[str, Any]) -> list[str]:
    return [
        escape(region["name"]), str(region["layers"]), format_gain(region["speedup"]), f"{region['predicted']:.2f}",
        "yes" if region["in_model"] else "no", escape(region["reason"]),
    ]  # fmt: skip
