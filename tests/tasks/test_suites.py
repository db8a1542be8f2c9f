"""Suites `core` and `serving` and the examples as data: the format, the variants, and inputs that admit no cheap answer."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SUITES = ROOT / "src" / "warpsmith" / "tasks" / "suites"
TASKS, SERVING = (sorted((SUITES / name).glob("[!_]*.py")) for name in ("core", "serving"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SMALL = [pytest.param(p, id=p.stem) for p in [*TASKS, *EXAMPLES]]
ALL = [*SMALL, *(pytest.param(p, id=p.stem) for p in SERVING)]
MAX_OUTPUT_BYTES = 16 << 20


def namespace(path: Path, overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    """The file's names after running it with some of its module-level literals replaced."""
    tree = ast.parse(path.read_text())
    left = dict(overrides or {})
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(target := statement.targets[0], ast.Name)
            and target.id in left
        ):
            ast.literal_eval(statement.value)
            statement.value = ast.copy_location(ast.Constant(left.pop(target.id)), statement.value)
    assert not left, f"{path.name} has no constants named {sorted(left)}"
    names: dict[str, Any] = {}
    exec(compile(tree, str(path), "exec"), names)
    return names


def outputs_of(names: dict[str, Any], inputs: list[torch.Tensor] | None = None) -> tuple[torch.Tensor, ...]:
    module = names["Model"](*names["get_init_inputs"]())
    with torch.no_grad():
        result = module(*(names["get_inputs"]() if inputs is None else inputs))
    return result if isinstance(result, tuple) else (result,)


def test_suite_is_large_enough() -> None:
    assert len(TASKS) >= 18


@pytest.mark.parametrize("path", ALL)
def test_documented_and_has_two_variants_one_ragged(path: Path) -> None:
    names = namespace(path)
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert len(names["VARIANTS"]) >= 2
    assert any(v % 2 for v in names["VARIANTS"]["ragged"].values())


@pytest.mark.parametrize("path", SMALL)
def test_runs_at_every_variant_and_is_no_larger_than_the_main_shape(path: Path) -> None:
    torch.manual_seed(0)
    names = namespace(path)
    main = outputs_of(names)
    assert sum(o.numel() * o.element_size() for o in main) <= MAX_OUTPUT_BYTES
    for variant in names["VARIANTS"].values():
        other = outputs_of(namespace(path, variant))
        assert [o.dtype for o in other] == [o.dtype for o in main]
        assert [o.dim() for o in other] == [o.dim() for o in main]
        assert sum(o.numel() for o in other) <= sum(o.numel() for o in main)


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in SERVING])
def test_served_blocks_run_in_half_precision_at_every_variant(path: Path) -> None:
    """Main shapes are those that are served, too large for a test."""
    variants = namespace(path)["VARIANTS"]
    ragged, small = (namespace(path, variants[name]) for name in ("ragged", "small"))
    (given, *_), outputs = ragged["get_inputs"](), (outputs_of(ragged), outputs_of(small))
    assert given.dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[path.stem.rsplit("_", 1)[1]]
    for large, little in zip(*outputs, strict=True):
        assert (large.dtype, large.dim()) == (little.dtype, little.dim())


@pytest.mark.parametrize("path", ALL)
def test_inputs_are_sign_mixed_and_outputs_follow_them(path: Path) -> None:
    """On inputs of one sign ReLU is the identity; an output that hardly varies can be guessed."""
    torch.manual_seed(1)
    names = namespace(path, namespace(path)["VARIANTS"]["small"])
    inputs = names["get_inputs"]()
    floating = [i for i in inputs if i.is_floating_point()]
    assert all((i > 0).float().mean() > 0.2 and (i < 0).float().mean() > 0.2 for i in floating)
    module = names["Model"](*names["get_init_inputs"]())
    with torch.no_grad():
        first, second = module(*inputs), module(*names["get_inputs"]())
    for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (first, second)), strict=True):
        assert torch.isfinite(a.float()).all()
        scale = a.float().abs().max()
        assert scale > 0
        assert (a.float() - b.float()).abs().max() > 1e-3 * scale, "other inputs give the same output"
        assert a.numel() == 1 or a.float().std() > 1e-3 * scale, "the output is nearly a constant"


@pytest.mark.parametrize("path", ALL)
def test_every_parameter_matters(path: Path) -> None:
    torch.manual_seed(2)
    names = namespace(path, namespace(path)["VARIANTS"]["small"])
    module, inputs = names["Model"](*names["get_init_inputs"]()), names["get_inputs"]()
    flat = lambda r: torch.cat([o.float().flatten() for o in (r if isinstance(r, tuple) else (r,))])  # noqa: E731
    with torch.no_grad():
        before = flat(module(*inputs))
        for name, parameter in module.named_parameters():
            neutral = (
                torch.ones_like(parameter)
                if "weight" in name or "scale" in name
                else torch.zeros_like(parameter)
            )
            kept = parameter.clone()
            parameter.copy_(neutral)
            assert not torch.allclose(flat(module(*inputs)), before, rtol=1e-4), f"{name} may be left out"
            parameter.copy_(kept)
