"""The price of an answer, by the price table of genai-prices (https://github.com/pydantic/genai-prices).

In: a model, where it is served, and the tokens of one exchange. Out: US dollars, or None where no price is known. The
setting `price`, "in/out" in dollars per million tokens, speaks for models that the table does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    model: str  # "provider:name"
    base_url: str | None = None
    stated: str | None = None  # the setting `price`

    def usd(self, usage: Any) -> float | None:
        """The cost of a usage as pydantic-ai or genai-prices counts one."""
        price = self._by_table(usage)
        if price is None and self.stated is not None:
            input_price, output_price = parse_price(self.stated)
            return (
                (usage.input_tokens or 0) * input_price + (usage.output_tokens or 0) * output_price
            ) / MILLION
        return price

    @property
    def known(self) -> bool:
        from genai_prices import Usage

        return self.usd(Usage(input_tokens=1, output_tokens=1)) is not None

    def _by_table(self, usage: Any) -> float | None:
        from genai_prices import calc_price

        provider, _, name = self.model.partition(":")
        try:
            if self.base_url is not None:
                return float(calc_price(usage, name, provider_api_url=self.base_url).total_price)
            return float(calc_price(usage, name, provider_id=provider.split("-")[0]).total_price)
        except (LookupError, ValueError):  # an unknown model; counts that contradict each other
            return None


def parse_price(text: str) -> tuple[float, float]:
    """ "0.5/2" → (0.5, 2.0), dollars per million tokens asked and answered. Raises UsageError."""
    input_price, slash, output_price = text.partition("/")
    try:
        price = float(input_price), float(output_price)
    except ValueError:
        price = (-1.0, -1.0)
    if not slash or not all(0 <= p < MILLION for p in price):
        raise UsageError(f"setting price: {text!r} is not dollars per million tokens as in/out, like 0.5/2")
    return price
