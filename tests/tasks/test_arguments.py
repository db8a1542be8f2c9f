"""Constructor arguments cross as JSON and come back the same."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.errors import TaskError
from warpsmith.tasks.arguments import decode, encode

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
LEAVES |= st.sampled_from([torch.float32, torch.bfloat16])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_comes_back_the_same(value: Any) -> None:
    back = decode(json.loads(json.dumps(encode(value))))
    assert back == value
    assert type(back) is type(value)


def test_nan_and_sizes() -> None:
    assert math.isnan(decode(encode(float("nan"))))
    assert decode(encode(torch.Size([2, 3]))) == (2, 3)


def test_a_tensor_is_refused_in_one_line() -> None:
    with pytest.raises(TaskError, match="holds a Tensor"):
        encode([torch.ones(2)])
