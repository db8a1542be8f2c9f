"""A task file as text: its module-level constants, and the same file with some of them replaced.

In: Python source. Out: what `ast` says of it, without running a line. Only simple assignments of literals
(`NAME = 4`, `A = B = 8`, `A, B = 4, 8`) count as constants; what depends on them follows by itself because
the whole file is run again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from operator import add, mul, sub
from typing import Any

from ..errors import TaskError

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {ast.Mult: mul, ast.Add: add, ast.Sub: sub}


def parse(text: str, filename: str) -> ast.Module:
    """Raises TaskError with the line of a syntax error."""
    try:
        return ast.parse(text, filename)
    except SyntaxError as error:
        raise TaskError(f"{filename}:{error.lineno or 0}: syntax error: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"{filename} is not a Python file: {type(error).__name__}: {error}") from error


def constants(tree: ast.Module) -> dict[str, Any]:
    """Module-level names that are assigned a literal, with its value."""
    return {name: _literal(value) for name, value, _ in _assignments(tree)}


def replace_constants(tree: ast.Module, overrides: Mapping[str, Any], filename: str) -> ast.Module:
    """The file with the given constants assigned other values.

    Raises TaskError for a name it does not assign.
    """
    assigned = constants(tree)
    for name in overrides:
        if name not in assigned:
            has = ", ".join(n for n in assigned if not n.startswith("_")) or "none"
            raise TaskError(f"{filename} has no module-level constant {name!r} to replace; it has: {has}")
    body: list[ast.stmt] = []
    for statement in tree.body:
        body.append(statement)
        names = [name for name, _, owner in _assignments_of(statement) if owner is statement]
        for name in names:
            if name in overrides:
                # A second assignment right after the first: chained and tuple targets keep their other names.
                target = ast.Name(id=name, ctx=ast.Store())
                value = ast.parse(repr(overrides[name]), mode="eval").body
                body.append(ast.copy_location(ast.Assign(targets=[target], value=value), statement))
    return ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))


def names_read_by(tree: ast.Module, functions: tuple[str, ...]) -> set[str]:
    """Module-level names that the functions read, directly or through other module-level definitions."""
    bodies: dict[str, list[ast.AST]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            bodies.setdefault(statement.name, []).append(statement)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                for name in _names(target):
                    bodies.setdefault(name, []).append(statement.value)
    reads_found: set[str] = set()
    waiting = list(functions)
    while waiting:
        for body in bodies.get(waiting.pop(), []):
            reads = {n.id for n in ast.walk(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            waiting += [n for n in reads - reads_found if n in bodies]
            reads_found |= reads & set(bodies)
    return reads_found


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr, ast.stmt]]:
    for statement in tree.body:
        yield from _assignments_of(statement)


def _assignments_of(statement: ast.stmt) -> Iterator[tuple[str, ast.expr, ast.stmt]]:
    """(name, literal expression, the statement) of each simple assignment of a literal."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return
    value = statement.value
    assert value is not None
    for target in targets:
        if isinstance(target, ast.Name):
            pairs = [(target, value)]
        elif (
            isinstance(target, ast.Tuple)
            and isinstance(value, ast.Tuple)
            and len(target.elts) == len(value.elts)
        ):
            pairs = [(t, v) for t, v in zip(target.elts, value.elts, strict=True) if isinstance(t, ast.Name)]
        else:
            continue
        yield from ((t.id, v, statement) for t, v in pairs if _is_literal(v))


def _literal(value: ast.expr) -> Any:
    """The value of a literal, or of a product, sum or difference of whole numbers (`1024 * 4`).

    ValueError for anything else.
    """
    if isinstance(value, ast.BinOp) and type(value.op) in _ARITHMETIC:
        left_value, right_value = _literal(value.left), _literal(value.right)
        if (
            type(left_value) is int
            and type(right_value) is int
            and abs(left_value) < 1 << 48
            and abs(right_value) < 1 << 48
        ):
            return _ARITHMETIC[type(value.op)](left_value, right_value)
    return ast.literal_eval(value)


def _is_literal(value: ast.expr) -> bool:
    try:
        _literal(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _names(target: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
