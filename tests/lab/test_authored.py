"""The hand-written CUDA units: each is well formed, and a bundle of one builds for every shape of its task.

The task is written here in KernelBench's form, so that no checkout is needed; its rows are as long as KernelBench's, so that the kernel
of the main shape is the one that is built.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpsmith.bundles.bundle import Bundle, read_bundle
from warpsmith.errors import UsageError
from warpsmith.judge.device.memory import estimate_bytes
from warpsmith.processes.buffers import Scratch
from warpsmith.targets import source_rules
from warpsmith.targets.cuda import CudaTarget
from warpsmith.targets.front_matter import parse

LAB = Path(__file__).resolve().parents[2] / "lab"
UNITS = sorted((LAB / "authored").glob("*.cu"))
TASK = """
import torch
batch_size = {batch}
dim = {dim}
class Model(torch.nn.Module):
    def forward(self, x):
        return {body}
def get_inputs():
    return [torch.rand(batch_size, dim)]
def get_init_inputs():
    return []
"""


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAB))


@pytest.fixture(name="checkout", scope="module")
def _checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks as KernelBench names them; the first in the alphabet is the larger one."""
    checkout = tmp_path_factory.mktemp("kb")
    level = checkout / "KernelBench" / "level1"
    level.mkdir(parents=True)
    (level / "23_Softmax.py").write_text(TASK.format(batch=64, dim=393216, body="torch.softmax(x, dim=1)"))
    (level / "25_Swish.py").write_text(TASK.format(batch=64, dim=1024, body="x * torch.sigmoid(x)"))
    return checkout


@pytest.fixture(name="bundle", scope="module")
def _bundle(checkout: Path) -> Bundle:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(LAB))
        import authored

        out = checkout / "bundle.tar.gz"
        given = [str(checkout), str(out), "--only", "23_Softmax", "--only", "25_Swish", "--author", "ada"]
        assert authored.main([*given, "--canary", "1"]) == 0
        return read_bundle(out)


@pytest.mark.parametrize("unit", UNITS, ids=[u.stem for u in UNITS])
def test_each_unit_is_named_after_a_task_and_well_formed(unit: Path) -> None:
    assert re.fullmatch(r"level[123]_\d+_\w+", unit.stem)
    source = unit.read_text()
    matter = parse(source)
    assert matter.family
    assert matter.technique
    assert matter.tunables
    assert source_rules.find_refusals(source, source_rules.CUDA) == ()


@pytest.mark.slow
def test_the_bundle_holds_each_unit_for_its_task_the_smallest_first(bundle: Bundle) -> None:
    assert (bundle.manifest.target, bundle.manifest.canaries) == ("cuda", 1)
    assert [t.name for t in bundle.tasks.values()] == ["25_Swish", "23_Softmax"]
    for task in bundle.tasks.values():
        (candidate,) = bundle.candidates_of(task.id)
        (unit,) = candidate.units
        assert unit.source == (LAB / "authored" / f"level1_{task.name}.cu").read_text()
        assert (unit.language, candidate.lineage.model) == ("cuda", "ada")


@pytest.mark.slow
def test_what_was_packed_builds_for_every_shape_without_spills(
    bundle: Bundle, toolkit: None, tmp_path: Path
) -> None:
    target = CudaTarget(tmp_path, arch="sm_90a")
    task = next(t for t in bundle.tasks.values() if t.name == "23_Softmax")
    (unit,) = bundle.candidates_of(task.id)[0].units
    assert [v.name for v in task.variants] == ["main", "ragged", "small"]
    for variant in task.variants:
        build = target.build(unit, variant.graph, variant.name)
        assert build.ok, build.diagnostics
        (kernel,) = build.kernels
        assert kernel.registers > 8  # a kernel that does nothing needs fewer
        assert (kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.stack_bytes) == (0, 0, 0)


@pytest.mark.slow
def test_a_task_that_needs_too_much_memory_gets_a_smaller_batch(bundle: Bundle, checkout: Path) -> None:
    import authored

    file = authored.task_file(checkout, LAB / "authored" / "level1_25_Swish.cu")
    whole = next(t for t in bundle.tasks.values() if t.name == "25_Swish")
    needed = estimate_bytes(whole.graph, "cuda")
    with Scratch() as scratch:
        less = authored.load_within(file, scratch, needed / 3)
        with pytest.raises(UsageError, match="cannot be judged in so little memory"):
            authored.load_within(file, scratch, needed / 1e6)
    assert whole.variants[0].overrides == {}
    assert less.variants[0].overrides == {"batch_size": 16}
    assert estimate_bytes(less.graph, "cuda") <= needed / 3


def test_a_checkout_without_the_task_and_a_name_without_a_unit_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import authored

    assert authored.main([str(tmp_path), str(tmp_path / "out"), "--only", "23_Softmax"]) == 2
    assert "no level1/23_Softmax.py" in capsys.readouterr().err
    assert authored.main([str(tmp_path), str(tmp_path / "out"), "--only", "nothing"]) == 2
    assert "has nothing in its name" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_experts_campaign_has_the_unit_by_hand_too(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import cuda_expert

    asked = [str(checkout), str(tmp_path / "out"), "--task", "level1/25", "--candidates", "1"]
    assert cuda_expert.main([*asked, "--authored"]) == 0
    assert "by hand: level1_25_Swish" in capsys.readouterr().out
    sources = {u.source for c in read_bundle(tmp_path / "out").candidates.values() for u in c.units}
    assert len(sources) == 2
    assert (LAB / "authored" / "level1_25_Swish.cu").read_text() in sources
    assert cuda_expert.main([str(checkout), str(tmp_path / "alone"), *asked[2:]]) == 0
    assert len(read_bundle(tmp_path / "alone").candidates) == 1
