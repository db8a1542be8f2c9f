"""Bare source builds with the commands its README gives; an exported winner carries its proof."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from warpsmith import records as r
from warpsmith.archive import Archive
from warpsmith.errors import ArchiveError, UsageError
from warpsmith.export import FORMS, export_winner, to_source
from warpsmith.export.files import fill_in_choices, format_nested, long_string
from warpsmith.targets.front_matter import unit_from_source

CLAIM = (
    "1.50× PyTorch eager (95% interval 1.45 to 1.55) on Test CPU, 2 threads, at 50% of the machine's limit."
)


def test_the_readme_commands_build_a_library_with_the_kernel_abi(task, candidate, target, tmp_path):
    to_source(task, candidate, target, tmp_path, "Proof.")
    readme = (tmp_path / "README.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        subprocess.run(
            ["bash", "-e", "-c", block], cwd=tmp_path, check=True, capture_output=True, timeout=120
        )
        assert b"warpsmith_run" in (tmp_path / f"unit{number}" / "unit.so").read_bytes()
    workspace = ctypes.CDLL(str(tmp_path / "unit1" / "unit.so")).warpsmith_workspace_bytes
    assert workspace() == 16 * 61 * 4
    assert "- `in[1]`: permute, float32 [16, 61]" in readme or "float32 [16, 61]" in readme
    assert "-DSTEP=16" in readme
    assert "gate: 2 kernels" in readme
    assert "sigmoid_step0 = aten.neg.default(" in readme
    assert "(aten.relu.default)" in readme


@pytest.fixture
def stored(task, candidate, tmp_path) -> Archive:
    """An archive in which the candidate is a confirmed winner."""
    archive = Archive(tmp_path / "a.db")
    environment = r.Environment(
        cpu="Test CPU",
        cores=2,
        threads=2,
        memory_gb=8,
        simd="avx2",
        os="Linux",
        python="3.11",
        torch="2.13.0",
        compiler="g++ 13",
    )
    archive.begin_run("run-1", task, "cpu", 7, {}, environment)
    ratio = r.Ratio(baseline="eager", median=1.5, low=1.45, high=1.55)
    timing = r.Timing(
        median_us=40,
        low_us=39,
        high_us=41,
        cache="cold",
        samples=30,
        ratios=(ratio,),
        limit_share=0.5,
        confirmed=True,
    )
    check = r.Check(variant="main", family="sign-mixed", where="whole", ok=True)
    result = r.Result(
        candidate_id=candidate.id,
        content_key=candidate.content_key,
        task_id=task.id,
        target="cpu",
        status="ok",
        verdict=r.Verdict(correct=True, checks=(check,), labels=("kernel",)),
        timing=timing,
        environment=environment.id,
    )
    archive.add_confirmation("run-1", candidate, result)
    return archive


@pytest.mark.parametrize("form", FORMS)
def test_every_form_carries_the_proof(stored, task, target, tmp_path, form):
    (entry,) = stored.winners(task.id, "cpu")
    path = export_winner(stored, stored.run("run-1"), entry, form, tmp_path / "gate_fast", target)
    files = (
        [path]
        if path.is_file()
        else [p for p in (tmp_path / "gate_fast").rglob("*") if p.suffix in (".md", ".py")]
    )
    texts = [p.read_text() for p in files]
    proven = [t for t in texts if CLAIM in t]
    assert proven
    assert all("seed 7; run run-1" in t and "1 checks (sign-mixed); labels: kernel" in t for t in proven)


def test_bad_requests_are_one_line(stored, task, target, tmp_path):
    (entry,) = stored.winners(task.id, "cpu")
    with pytest.raises(UsageError, match="choose one of kernelbench, package, source"):
        export_winner(stored, stored.run("run-1"), entry, "wheel", tmp_path / "x", target)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        export_winner(stored, stored.run("run-1"), entry, "kernelbench", tmp_path / "file" / "x.py", target)
    with pytest.raises(ArchiveError, match="is not in the archive"):
        export_winner(Archive(tmp_path / "empty.db"), stored.run("run-1"), entry, "source", Path("x"), target)


@pytest.mark.parametrize(
    "text", ["a\nb", "it's '''quoted'''", "back\\slash", "ends with '", "\r\n", "", 'six """ quotes']
)
def test_a_long_string_reads_back(text):
    assert eval(long_string(text)) == text


def test_leaves_are_nested_as_the_module_nests_them():
    tree = {"tuple": [0, [1, {"dict": {"a'b": 2}}], {"tuple": [0]}]}
    assert eval(format_nested(tree), {"leaves": ("x", "y", "z")}) == ("x", ["y", {"a'b": "z"}], ("x",))


def test_the_source_names_the_values_and_flags_that_were_measured(candidate):
    source = (
        "// warpsmith-unit: 1\n// family: f   technique: t\n// tunable: STEP = 8 {8, 16}\n// flags: -funroll-loops\n"
        '// prose\n#ifndef STEP\n#define STEP 8\n#endif\n#include "task.h"\n'
    )
    unit = candidate.units[0].model_copy(
        update={"source": source, "flags": ("-funroll-loops", "-fno-tree-vectorize")}
    )
    text = fill_in_choices(unit)
    read = unit_from_source(text, unit.region)
    assert read.values == unit.values == {"STEP": 16}
    assert sorted(read.flags) == sorted(unit.flags)
    assert "#ifndef STEP\n#define STEP 16\n" in text
    assert text.endswith('#include "task.h"\n')
    assert fill_in_choices(candidate.units[1]) == candidate.units[1].source
