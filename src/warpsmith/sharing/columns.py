"""The columns of every file that is shared: name, type and meaning, written once.

The Parquet schemas, the checks of what comes in, the dataset card and the reference page are all made from these tables.
`FIELD` are the columns of the AI CUDA Engineer Archive
(https://huggingface.co/datasets/SakanaAI/AI-CUDA-Engineer-Archive), with its types and units; `OURS` follow them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["string", "int", "float", "bool", "strings", "steps"]


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind  # "strings": a list of them; "steps": a list of STEP
    meaning: str


FIELD = (
    Column("Op_Name", "string", "task, as `19_ReLU`"),
    Column("Level_ID", "int", "KernelBench level, where the task's name or folder says it"),
    Column("Task_ID", "int", "number within the level, where the task's name begins with it"),
    Column("Kernel_Name", "string", "techniques of the units, and the candidate's id"),
    Column(
        "CUDA_Runtime", "float", "ms, median of the whole module as deployed, on `ws_target` (the CPU, too)"
    ),
    Column("PyTorch_Native_Runtime", "float", "ms, median of eager PyTorch in the same run"),
    Column("PyTorch_Compile_Runtime", "float", "ms, median of torch.compile in the same run"),
    Column(
        "CUDA_Speedup_Native",
        "float",
        "over eager; measured side by side, so not quite the quotient of the two",
    ),
    Column("CUDA_Speedup_Compile", "float", "over torch.compile, likewise"),
    Column("CUDA_Code", "string", "sources of the units, one after the other"),
    Column("PyTorch_Code_Module", "string", "the task's file"),
    Column("PyTorch_Code_Functional", "string", "the same with `module_fn`; null in ours: see `ws_graph`"),
    Column(
        "Correct", "bool", "every check passed and the timing is valid; null where the judge itself failed"
    ),
    Column("Max_Diff", "float", "largest absolute difference; null in ours: see `ws_error_share`"),
    Column("Error", "string", "why it is not correct"),
    Column("NCU_Profile", "string", "Nsight Compute's metrics; null in ours: see `ws_profile`"),
    Column("Torch_Profile", "string", "torch.profiler's table; null in ours"),
    Column("Clang_Tidy", "string", "clang-tidy's output; null in ours"),
)

OURS = (
    Column("ws_result_id", "string", "id of the result: a candidate may have several"),
    Column("ws_candidate_id", "string", "id of the candidate"),
    Column("ws_content_key", "string", "the same for candidates that build and judge the same"),
    Column("ws_task", "string", "id of the task"),
    Column("ws_target", "string", "`cpu` or `cuda`"),
    Column("ws_status", "string", "`ok`, or the stage that ended it"),
    Column("ws_confirmed", "bool", "measured again in fresh processes"),
    Column("ws_runtime_low", "float", "ms, lower end of the interval of `CUDA_Runtime`"),
    Column("ws_runtime_high", "float", "ms, upper end"),
    Column("ws_speedup", "float", "over the fastest baseline, median"),
    Column("ws_speedup_low", "float", "lower end of its interval; above 1 is a win"),
    Column("ws_speedup_high", "float", "upper end"),
    Column("ws_baseline", "string", "the fastest baseline"),
    Column("ws_limit_share", "float", "share of the speed-of-light limit that is reached"),
    Column("ws_error_share", "float", "worst error as a share of the error budget; above 1 fails"),
    Column("ws_labels", "strings", "`kernel`, `library` or `algorithmic`; `general` or `specialised`; …"),
    Column("ws_signatures", "strings", "signature of each unit's region"),
    Column("ws_families", "strings", "family and technique of each unit"),
    Column("ws_tunables", "string", "JSON: name → value, a list of one for each unit"),
    Column("ws_graph", "string", "the task's graph, one ATen operation a line"),
    Column("ws_parents", "strings", "ids of the candidates it was made from"),
    Column("ws_operator", "string", "how it was made from them"),
    Column("ws_agent", "string", "who made it"),
    Column("ws_model", "string", "`expert`, or the language model"),
    Column("ws_hypothesis", "string", "JSON: what it was made to try, and the evidence"),
    Column("ws_reason", "string", "the same in one line"),
    Column("ws_environment", "string", "JSON: machine, driver, compiler, torch"),
    Column("ws_profile", "string", "JSON: what was seen of each unit while it ran"),
    Column("ws_seed", "int", "of the judgement"),
    Column("ws_judged_at", "string", "ISO 8601, UTC"),
    Column("ws_license", "string", "SPDX expression; `unknown` where nobody said"),
    Column("ws_format", "int", "version of `ws_records`"),
    Column("ws_records", "strings", "JSON lines, as `archive export` writes them, that no row before holds"),
)

_ABOUT = (
    Column("task", "string", "name of the task"),
    Column("task_id", "string", "id of the task"),
    Column("target", "string", "`cpu` or `cuda`"),
    Column("license", "string", "SPDX expression; `unknown` where nobody said"),
    Column(
        "origin", "string", "`local`: verified by the judge that wrote this; `imported`: by another machine's"
    ),
    Column("hardware", "string", "where it was measured"),
    Column("environment", "string", "id of machine, driver, compiler and torch together"),
)

PAIRS = (
    Column("prompt", "string", "the module, the region in ATen, its inputs and outputs, and what to write"),
    Column("completion", "string", "the best verified unit for that region"),
    Column("language", "string", "`c++`, `cuda` or `aten`"),
    Column("signature", "string", "of the region"),
    Column("technique", "string", "family and technique"),
    Column("tunables", "string", "JSON: name → value that was measured"),
    Column("flags", "string", "compiler flags that were measured"),
    Column("speedup", "float", "of the candidate with this unit, over the fastest baseline, median"),
    Column("speedup_low", "float", "lower end of its interval"),
    Column("speedup_high", "float", "upper end"),
    Column("baseline", "string", "the fastest baseline"),
    Column("limit_share", "float", "share of the speed-of-light limit"),
    Column("confirmed", "bool", "measured again in fresh processes"),
    Column("labels", "string", "as the judge gave them"),
    Column("candidate_id", "string", "id of the candidate"),
    *_ABOUT,
)

PREFERENCES = (
    Column("prompt", "string", "the module, the regions in ATen, and what to write"),
    Column("chosen", "string", "units of the better candidate"),
    Column("rejected", "string", "units of the worse candidate, for the same regions"),
    Column("reason", "string", "`faster`: the intervals do not touch; `correct`: the other one is not"),
    Column("chosen_speedup", "float", "over the fastest baseline, median"),
    Column("chosen_low", "float", "lower end of its interval"),
    Column("rejected_speedup", "float", "the same of the other; 0 where it is not correct"),
    Column("rejected_high", "float", "upper end of its interval; 0 where it is not correct"),
    Column("rejected_status", "string", "`ok`, or the stage that ended it"),
    Column("rejected_error", "string", "why it is not correct"),
    Column("baseline", "string", "the fastest baseline, the same for both"),
    Column("signatures", "string", "of the regions, one a line"),
    Column("chosen_id", "string", "id of the better candidate"),
    Column("rejected_id", "string", "id of the worse candidate"),
    *_ABOUT,
)

STEP = (
    Column("number", "int", "place in the run, from 1"),
    Column("kind", "string", "`search`, `confirmation`, or `reused` from an earlier run"),
    Column("candidate_id", "string", "id of the candidate"),
    Column("parents", "string", "ids of the candidates it was made from, separated by blanks"),
    Column("operator", "string", "how it was made from them"),
    Column("agent", "string", "who made it"),
    Column("model", "string", "`expert`, or the language model"),
    Column("hypothesis", "string", "what it was made to try"),
    Column("evidence", "string", "measured facts it rests on, one a line"),
    Column("source", "string", "sources of the units, one after the other"),
    Column("tunables", "string", "JSON: name → value, a list of one for each unit"),
    Column("status", "string", "`ok`, or the stage that ended it"),
    Column("feedback", "string", "what the judge said of a failure"),
    Column("speedup", "float", "over the fastest baseline, median; 0 where it is not correct"),
    Column("reward", "float", "lower end of the speedup's interval; 0 where it is not correct"),
    Column("best", "float", "highest reward so far, this step included"),
    Column("elapsed", "float", "seconds since the run began"),
    Column("usd", "float", "that making it cost"),
)

TRAJECTORIES = (
    Column("prompt", "string", "the module, and what to write"),
    Column("run_id", "string", "id of the run"),
    Column("seed", "int", "of the run"),
    Column("outcome", "string", "`win`, `no-win`, `too-busy`, `failed`; `unfinished`"),
    Column("reward", "float", "highest reward of a step"),
    Column("steps", "steps", "every candidate in the order in which it was judged"),
    Column("signatures", "string", "of all regions in it, one a line"),
    *_ABOUT,
)

ARCHIVE = (*FIELD, *OURS)
DATASETS: dict[str, tuple[Column, ...]] = {
    "pairs": PAIRS,
    "preferences": PREFERENCES,
    "trajectories": TRAJECTORIES,
}


def reference() -> str:
    """Markdown: every column of every file."""
    parts = (
        ("Parquet of an archive: the field's columns", FIELD),
        ("Parquet of an archive: our columns", OURS),
        ("Training set `pairs`", PAIRS),
        ("Training set `preferences`", PREFERENCES),
        ("Training set `trajectories`", TRAJECTORIES),
        ("A step of `trajectories`", STEP),
    )
    return "\n".join(f"## {title}\n\n{table(columns)}\n" for title, columns in parts)


def table(columns: tuple[Column, ...]) -> str:
    rows = (f"| `{c.name}` | {SHOWN[c.kind]} | {c.meaning} |" for c in columns)
    return "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


SHOWN: dict[Kind, str] = {
    "string": "string", "int": "int64", "float": "float64", "bool": "bool", "strings": "list of strings",
    "steps": "list of steps",
}  # fmt: skip
