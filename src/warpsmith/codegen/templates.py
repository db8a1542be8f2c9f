"""Kernel text lies in files that editors, clang-format and compilers understand; here it is read and filled in.

A placeholder is `$name` (`string.Template`), which C++ compilers take for an identifier.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

DESCRIPTION = re.compile(r"\A(?://!.*\n)+")


@cache
def read_kernel(name: str) -> Template:
    """The template of a file such as "gemm/cuda/gemm_small_m.cuh". The comment that opens a file describes it and is not emitted."""
    text = files("warpsmith.kernels").joinpath(name).read_text(encoding="utf-8")
    return Template(DESCRIPTION.sub("", text))


def render(name: str, **values: object) -> str:
    """The text with every placeholder filled in. Raises KeyError for one without a value, ValueError for a value without a placeholder."""
    template = read_kernel(name)
    unused = values.keys() - set(template.get_identifiers())
    if unused:
        raise ValueError(f"{name} has no placeholder ${', $'.join(sorted(unused))}")
    return template.substitute(values)
