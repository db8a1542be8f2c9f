"""Values files seen from torch and from numpy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from warpsmith.errors import JudgeError, TaskError
from warpsmith.processes.buffers import ValuesFile
from warpsmith.records import TensorSpec
from warpsmith.runtime.tensors import open_tensors, write_tensors
from warpsmith.tasks import values


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorSpec(shape=tuple(tensor.shape), dtype=dtype, stride=tuple(tensor.stride()))


TENSORS = [
    torch.randn(3, 5),
    torch.randn(5, 3).t(),
    torch.randn(4, 6)[:, ::2],
    torch.randn(7).bfloat16(),
    torch.randn(2, 2).half(),
    torch.tensor([True, False, True]),
    torch.arange(5),
    torch.tensor(2.5),
    torch.randn(3, 1).expand(3, 4),
    torch.empty(0, 3),
]


def test_round_trip_in_every_layout(tmp_path: Path) -> None:
    specs = [spec_of(t) for t in TENSORS]
    write_tensors(tmp_path / "v", specs, TENSORS)
    for original, read in zip(TENSORS, open_tensors(tmp_path / "v", specs), strict=True):
        assert read.stride() == original.stride()
        assert read.data_ptr() % 64 == 0
        assert torch.equal(read, original)
    arrays = ValuesFile(tmp_path / "v", specs).arrays()
    np.testing.assert_array_equal(arrays[1], TENSORS[1].numpy())
    as_float = (arrays[3].astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(as_float, TENSORS[3].float().numpy())


def test_memory_is_shared_unless_private(tmp_path: Path) -> None:
    specs = [spec_of(TENSORS[0])]
    write_tensors(tmp_path / "v", specs, [TENSORS[0]])
    shared, other = open_tensors(tmp_path / "v", specs)[0], open_tensors(tmp_path / "v", specs)[0]
    private = open_tensors(tmp_path / "v", specs, writable=False)[0]
    shared.fill_(7)
    assert bool((other == 7).all())
    private.fill_(9)
    assert bool((other == 7).all())


def test_refusals(tmp_path: Path) -> None:
    spec = spec_of(TENSORS[0])
    with pytest.raises(TaskError, match="not float32"):
        write_tensors(tmp_path / "v", [spec], [torch.zeros(2)])
    write_tensors(tmp_path / "w", [spec], [TENSORS[0]])
    with pytest.raises(JudgeError, match="shorter"):
        open_tensors(tmp_path / "w", [spec, spec])


def test_what_could_not_be_written_can_be_written_again(tmp_path: Path) -> None:
    """As where a GPU has no memory for a while."""
    spec = TensorSpec(shape=(2,), dtype="float32", stride=(1,))

    def none_left() -> Iterator[torch.Tensor]:
        yield torch.ones(2)
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        write_tensors(tmp_path / "v", [spec, spec], none_left())
    write_tensors(tmp_path / "v", [spec, spec], [torch.ones(2), torch.ones(2)])


def test_a_large_file_is_touched_first_and_holds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "LARGE_FILE_BYTES", 5000)
    spec = TensorSpec(shape=(3000,), dtype="float32", stride=(1,))
    given = torch.randn(3000)
    write_tensors(tmp_path / "v", [spec], [given])
    assert torch.equal(open_tensors(tmp_path / "v", [spec])[0], given)


def test_a_file_that_is_written_again_leaves_the_earlier_one_to_who_has_it(tmp_path: Path) -> None:
    spec = TensorSpec(shape=(2,), dtype="float32", stride=(1,))
    write_tensors(tmp_path / "v", [spec], [torch.ones(2)])
    earlier = open_tensors(tmp_path / "v", [spec])[0]
    write_tensors(tmp_path / "v", [spec], [torch.zeros(2)])
    assert torch.equal(earlier, torch.ones(2))
    assert torch.equal(open_tensors(tmp_path / "v", [spec])[0], torch.zeros(2))
    assert [p.name for p in tmp_path.iterdir()] == ["v"]


def test_two_who_write_a_file_at_once_do_not_meet(tmp_path: Path) -> None:
    spec = TensorSpec(shape=(2,), dtype="float32", stride=(1,))

    def another_writes() -> Iterator[torch.Tensor]:
        write_tensors(tmp_path / "v", [spec], [torch.zeros(2)])
        yield torch.ones(2)

    write_tensors(tmp_path / "v", [spec], another_writes())
    assert torch.equal(open_tensors(tmp_path / "v", [spec])[0], torch.ones(2))
