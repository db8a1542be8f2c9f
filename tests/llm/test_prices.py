"""What answers cost: by the table, by the stated price, or not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.usage import RequestUsage

from warpsmith.errors import UsageError
from warpsmith.llm.prices import Price, parse_price

A_THOUSAND = RequestUsage(input_tokens=1000, output_tokens=1000)


@pytest.mark.parametrize(
    "model", ["openai:gpt-4o", "anthropic:claude-3-5-haiku-latest", "google:gemini-2.5-flash", "openai-chat:gpt-4o"]
)  # fmt: skip
def test_the_table_knows_the_common_models(model: str) -> None:
    price = Price(model)
    once, twice = price.usd(A_THOUSAND), price.usd(RequestUsage(input_tokens=2000, output_tokens=2000))
    assert price.known
    assert once is not None
    assert 1e-5 < once < 1.0
    assert twice == pytest.approx(2 * once)


def test_what_is_read_from_the_cache_is_cheaper() -> None:
    price = Price("anthropic:claude-3-5-haiku-latest")
    plain = price.usd(RequestUsage(input_tokens=10_000, output_tokens=1))
    cached = price.usd(RequestUsage(input_tokens=10_000, cache_read_tokens=9_000, output_tokens=1))
    assert plain is not None
    assert cached is not None
    assert cached < 0.3 * plain


def test_a_model_served_elsewhere_has_not_the_price_of_its_namesake() -> None:
    assert not Price("openai:gpt-4o", "http://localhost:8000/v1").known
    assert Price("openai:openai/gpt-4o", "https://openrouter.ai/api/v1").known


def test_the_stated_price_is_for_models_that_the_table_does_not_know() -> None:
    assert Price("openai:mine", None, "1/3").usd(A_THOUSAND) == pytest.approx(4000 / 1e6)
    assert Price("openai:gpt-4o", None, "1/3").usd(A_THOUSAND) == Price("openai:gpt-4o").usd(A_THOUSAND)
    assert Price("openai:mine", None, "0/0").usd(A_THOUSAND) == 0.0
    assert Price("openai:mine").usd(A_THOUSAND) is None


@pytest.mark.parametrize("text", ["", "1", "1/", "a/b", "-1/2", "1/nan", "inf/1", "1/2/3"])
def test_a_price_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="in/out"):
        parse_price(text)


@given(st.floats(0, 999_999), st.floats(0, 999_999))
def test_a_price_is_read(asked: float, answered: float) -> None:
    assert parse_price(f"{asked}/{answered}") == (asked, answered)
