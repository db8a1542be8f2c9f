"""The layer order, written once, and what keeps it: imports go down only, no cycles, torch in few places."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# Lowest first. Names on one line do not import each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("records",),
    ("errors", "places"),
    ("plugins", "config", "machine", "progress", "budgets", "hardware", "web"),
    ("facts", "wording"),
    ("pages",),
    ("watching", "tracking"),
    ("processes",),
    ("ahead",),
    ("tasks",),
    ("targets",),
    ("codegen",),
    ("kernels",),
    ("runtime",),
    ("judge",),
    ("profile", "solutions"),
    ("executors", "workload", "composition", "rewards"),
    ("archive",),
    ("knowledge", "llm", "sharing"),
    ("agents",),
    ("search",),
    ("report",),
    ("export",),
    ("site",),
    ("pipeline", "doctor", "zoo"),
    ("authoring",),
    ("bundles",),
    ("dynamic_shapes", "cluster"),
    ("api",),
    ("whole_model", "compiling"),
    ("training",),
    ("mcp", "serving", "ui"),
    ("environment",),
    ("cli",),
    ("testing", "__main__"),
)

# The same inside of a package: its modules and packages, lowest first.
PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "judge": (
        ("layout",),
        ("labels", "sample_rows"),
        ("device",),
        ("isolation",),
        ("timing",),
        ("roofline", "correctness"),
        ("admission",),
        ("building", "judge_session"),
        ("secret_shape",),
        ("judge", "task_check"),
        ("screening",),
    ),
    "codegen": (
        ("templates", "program"),
        ("writer", "passes"),
        ("lowering",),
        ("addresses",),
        ("expressions", "cpp_source", "rewrites"),
        ("fusion",),
        ("cuda",),
    ),
    "kernels": (
        ("family", "costs"),
        ("schedule", "anchored", "cuda_unit"),
        ("cpp_anchored", "cuda_anchored", "cuda_tunables", "elementwise_schedule"),
        (
            "reduce",
            "pointwise",
            "collapse",
            "fold",
            "pool",
            "scan",
            "gemm",
            "data_movement",
            "lrn",
            "resize",
            "library",
        ),
        ("conv", "attention"),
        ("registry",),
    ),
}

# These run in processes of their own, or in the user's process through the Python API; nothing else
# pulls torch in.
TORCH_ALLOWED = (
    "warpsmith.compiling.backend",
    "warpsmith.compiling.compiled",
    "warpsmith.compiling.conversion",
    "warpsmith.compiling.steps",
    "warpsmith.compiling.substitution",
    "warpsmith.composition",
    "warpsmith.dynamic_shapes",
    "warpsmith.export",
    "warpsmith.judge.correctness.family_values",
    "warpsmith.judge.correctness.mutants",
    "warpsmith.judge.correctness.on_device_comparison",
    "warpsmith.judge.correctness.oracle",
    "warpsmith.judge.correctness.reference",
    "warpsmith.judge.correctness.intermediates",
    "warpsmith.judge.correctness.stepping",
    "warpsmith.judge.device.tf32",
    "warpsmith.judge.roofline.cuda_peaks",
    "warpsmith.judge.timing.bench_worker",
    "warpsmith.judge.timing.cuda_clock",
    "warpsmith.judge.timing.late_changes",
    "warpsmith.judge.timing.stopwatch",
    "warpsmith.judge.timing.zygote",
    "warpsmith.profile.torch_worker",
    "warpsmith.runtime",
    "warpsmith.solutions.hosted",
    "warpsmith.solutions.integrity",
    "warpsmith.solutions.settings",
    "warpsmith.solutions.tracing",
    "warpsmith.solutions.zygote",
    "warpsmith.tasks.arguments",
    "warpsmith.tasks.convert",
    "warpsmith.tasks.decompositions",
    "warpsmith.tasks.drawn",
    "warpsmith.tasks.export",
    "warpsmith.tasks.fake",
    "warpsmith.tasks.flattened",
    "warpsmith.tasks.functions",
    "warpsmith.tasks.host",
    "warpsmith.tasks.hosted",
    "warpsmith.tasks.memory",
    "warpsmith.tasks.module_state",
    "warpsmith.tasks.nodes",
    "warpsmith.tasks.operator_libraries",
    "warpsmith.tasks.outside_state",
    "warpsmith.tasks.repeated_heads",
    "warpsmith.tasks.structure",
    "warpsmith.tasks.taskfile",
    "warpsmith.tasks.thin_products",
    "warpsmith.tasks.undone_copies",
    "warpsmith.tasks.values",
    "warpsmith.training.finishing",
    "warpsmith.training.searching",
    "warpsmith.training.step",
    "warpsmith.training.trained_module",
    "warpsmith.whole_model.finishing",
    "warpsmith.whole_model.result",
    "warpsmith.whole_model.searching",
    "warpsmith.workload",
)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package. Tasks of the suites and the zoo's fixtures are data, not modules."""
    files = (p for p in (SOURCE / "warpsmith").rglob("*.py") if not {"suites", "fixtures"} & set(p.parts))
    return {module_name(p): p for p in files}


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def import_statements(body: list[ast.stmt], everywhere: bool) -> list[ast.Import | ast.ImportFrom]:
    """Imports that run with the module; with `everywhere`, those in functions too. None for type checkers."""
    found: list[ast.Import | ast.ImportFrom] = []
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found.append(statement)
        elif isinstance(statement, ast.If) and is_type_checking(statement.test):
            found += import_statements(statement.orelse, everywhere)
        elif everywhere or not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody"):
                found += import_statements(getattr(statement, field, []), everywhere)
            for handler in getattr(statement, "handlers", []):
                found += import_statements(handler.body, everywhere)
            for case in getattr(statement, "cases", []):
                found += import_statements(case.body, everywhere)
    return found


@cache
def imports(name: str, everywhere: bool) -> frozenset[str]:
    """Absolute names of what a module imports: our modules as such, others as they are written."""
    path = modules()[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for statement in import_statements(ast.parse(path.read_text()).body, everywhere):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
            continue
        base = statement.module or ""
        if statement.level:
            above = package.split(".")[: len(package.split(".")) - statement.level + 1]
            base = ".".join([*above, base] if base else above)
        for alias in statement.names:
            full = f"{base}.{alias.name}"
            found.add(full if full in modules() else base)
    return frozenset(found - {name})


def ours(name: str, everywhere: bool = True) -> set[str]:
    return {i for i in imports(name, everywhere) if i in modules()}


def layer(name: str) -> int:
    top = name.split(".")[1]
    return next((number for number, names in enumerate(LAYERS) if top in names), -1)


def test_every_module_has_a_layer() -> None:
    unknown = [m for m in modules() if m != "warpsmith" and layer(m) < 0]
    assert not unknown, f"write these into LAYERS: {unknown}"


def test_imports_go_down_only() -> None:
    wrong = []
    for name in modules():
        if name == "warpsmith":  # the package's face: it may offer names of any layer, lazily
            continue
        for imported in ours(name) - {"warpsmith"}:
            same_package = name.split(".")[1] == imported.split(".")[1]
            if not same_package and layer(imported) >= layer(name):
                wrong.append(f"{name} imports {imported}")
    assert not wrong, "\n".join(sorted(wrong))


@pytest.mark.parametrize("package", PARTS)
def test_imports_inside_of_a_package_go_down_only(package: str) -> None:
    prefix = f"warpsmith.{package}."
    rank = {part: number for number, parts in enumerate(PARTS[package]) for part in parts}
    inside = {m: m.removeprefix(prefix).split(".")[0] for m in modules() if m.startswith(prefix)}
    assert set(inside.values()) == set(rank), "write these into PARTS"
    wrong = [
        f"{name} imports {imported}"
        for name, part in inside.items()
        for imported in sorted(ours(name) & set(inside))
        if inside[imported] != part and rank[inside[imported]] >= rank[part]
    ]
    assert not wrong, "\n".join(wrong)


def test_cpp_and_cuda_kernels_do_not_import_each_other() -> None:
    wrong = [
        f"{name} imports {imported}"
        for name in modules()
        for here, there in ((".cpu.", ".cuda."), (".cuda.", ".cpu."))
        if name.startswith("warpsmith.kernels.") and here in name
        for imported in sorted(ours(name))
        if imported.startswith("warpsmith.kernels.") and there in imported
    ]
    assert not wrong, "\n".join(wrong)


def test_agents_share_nothing_that_is_the_experts() -> None:
    """What all brains share lies beside them: a language model's agents need no built-in expert."""
    shared = {"warpsmith.agents.base"} | {i for i in ours("warpsmith.agents.base") if "agents" in i}
    assert not [i for name in shared for i in ours(name) if i.startswith("warpsmith.agents.expert")]


def test_package_root_is_light() -> None:
    assert not ours("warpsmith", everywhere=False), "warpsmith/__init__.py imports inside functions only"


def test_no_cycles() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join([*path[path.index(name) :], name])
        if name not in done:
            for imported in sorted(ours(name) - {"warpsmith"}):
                visit(imported, (*path, name))
            done.add(name)

    for name in sorted(set(modules()) - {"warpsmith"}):
        visit(name, ())


def allowed_torch(name: str) -> bool:
    return any(name == a or name.startswith(f"{a}.") for a in TORCH_ALLOWED)


def reaches_torch(name: str) -> list[str]:
    """The chain of module-level imports from a module to torch; empty when there is none."""
    stack, seen = [[name]], {name}
    while stack:
        chain = stack.pop()
        names = imports(chain[-1], everywhere=False)
        if any(i == "torch" or i.startswith("torch.") for i in names):
            return [*chain, "torch"]
        # Importing a.b.c runs a and a.b as well.
        parents = {".".join(i.split(".")[:n]) for i in names for n in range(1, i.count(".") + 2)}
        for imported in sorted((parents & set(modules())) - seen):
            seen.add(imported)
            stack.append([*chain, imported])
    return []


@pytest.mark.parametrize("name", sorted(n for n in modules() if not allowed_torch(n)))
def test_supervisor_modules_do_not_pull_torch_in(name: str) -> None:
    chain = reaches_torch(name)
    assert not chain, " → ".join(chain)


def test_torch_list_names_modules_that_exist() -> None:
    assert [a for a in TORCH_ALLOWED if a not in modules()] == []


def test_the_scan_sees_what_it_looks_for() -> None:
    """The rules above would pass on an empty scan, so look at imports that are known to be there."""
    assert "warpsmith.records.record" in ours("warpsmith.records.graph")
    assert "warpsmith.errors" in ours("warpsmith.processes.worker")
    assert "warpsmith.api" in ours("warpsmith.cli.run") - ours("warpsmith.cli.run", everywhere=False)
