"""Records of a reward: the number, the parts that it is the sum of, the weights of the parts, and the evidence behind it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..records import Ratio, Record

RewardMode = Literal["screening", "verdict"]
PARTS = ("builds", "right", "label", "speed", "limit", "length", "cheat")
# A solution or unit with one of these is right and still not what is paid for: it does no work of its own, or holds for less than the task.
FORFEITED = (
    "none", "library", "algorithmic", "unexplained", "specialised", "contiguous-inputs-only", "ignores-parameters",
    "quarantined",
)  # fmt: skip


class RewardWeights(Record):
    """The weight of each part. None may be negative: only `speed` and `limit` ever add, and they are paid for right kernels alone."""

    builds: float = Field(default=0.3, ge=0)  # taken off where it does not build or load
    right: float = Field(
        default=0.5, ge=0
    )  # taken off where it is not right, which includes what does not build
    label: float = Field(default=0.45, ge=0)  # taken off for a forfeited label
    speed: float = Field(
        default=1.0, ge=0
    )  # of the decimal logarithm of the speedup's low end, from -0.4 to 1
    limit: float = Field(
        default=0.25, ge=0
    )  # of the share of the physical limit, where the speedup's low end is above 1
    length: float = Field(
        default=0.02, ge=0
    )  # taken off for a source of `long_characters`, less for a shorter one
    cheat: float = Field(default=1.0, ge=0)  # the whole reward of a cheat is minus this
    long_characters: int = Field(default=16_384, ge=1)
    accepted: tuple[
        str, ...
    ] = ()  # labels of `FORFEITED` that are paid for all the same, such as "algorithmic"


class Reward(Record):
    """The reward of one action. Above 0 it is a claim: right, of an accepted label, and the low end of its speedup above 1."""

    reward: float  # the sum of its parts
    parts: dict[str, float] = {}  # names are those of `PARTS`
    mode: RewardMode = "screening"
    status: str  # of a unit's result, "correct" / "incorrect" / "invalid" of a solution, "malformed" for what cannot be judged
    right: bool = False
    cheating: bool = False  # refused, or invalid as a measurement
    ratio: Ratio | None = None  # whose low end was paid; of a screened unit an estimate
    us: float | None = None  # microseconds of a call
    limit_share: float = 0.0
    labels: tuple[str, ...] = ()
    reason: str = ""  # one line, for who trains
    evidence: tuple[str, ...] = ()  # failed checks with their details, diagnostics; for who trains
    feedback: str = ""  # what a policy may be told: nothing of inputs, seeds or secret shapes
    hardware: str = ""
    candidate: str = ""  # the unit's or schedule's id in the archive, or the hash of a solution's text
    job: str = ""


__all__ = ["FORFEITED", "PARTS", "Reward", "RewardMode", "RewardWeights"]
