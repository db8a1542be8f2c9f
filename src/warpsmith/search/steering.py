"""The physical limit decides where effort goes: which regions are worked on, how much, and when to stop.

In: a situation. Out: what each region may still gain (`headroom`), a split of candidates over regions, and the reason to stop when too
little is left. A region is left alone by the one rule of `agents.findings.list_settled`. What that saved is kept for the report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..agents.base import Situation
from ..agents.findings import list_settled
from .headroom import REST, Headroom, Room, headroom
from .savings import Savings

__all__ = ["REST", "Room", "Savings", "Steering", "proportional"]


class Steering:
    """`worth`: factor on the whole task below which gains are not worth going on. Off: every region is open and gets the same
    number of candidates, and nothing stops the run. A limit that was measured on a busy machine may be too high: it closes no
    region and stops nothing.
    """

    def __init__(self, worth: float = 1.02, on: bool = True) -> None:
        self.saved = Savings()
        self._worth, self.on = worth, on

    def rooms(self, situation: Situation) -> list[Room]:
        """Regions that some correct candidate has a unit for, and the rest, most to gain first. Empty before the best candidate
        was profiled.
        """
        room = self._find_headroom(situation)
        return room.rooms() if room is not None else []

    def open(self, situation: Situation, region_id: str) -> bool:
        return not self._trusts(situation) or region_id not in list_settled(
            a.result for a in situation.attempts
        )

    def split(self, situation: Situation, n: int) -> dict[str, int]:
        """Share `n` candidates among the regions, by the logarithm of its gain; REST stands for regions that have no unit in
        the best. Empty where nothing is known yet, or nothing is left to gain anywhere.
        """
        rooms = self.rooms(situation)
        for room in rooms:
            if room.region in self.saved.closed:
                self.saved.move(room.region, n / len(rooms))
        return proportional({r.region: math.log(r.gain_left) if self.on else 1.0 for r in rooms}, n)

    def stop(self, situation: Situation) -> str | None:
        """Why to stop now: the best gain still possible is below `worth`. None to go on, or where nothing is known."""
        self.saved.stopped = ""
        room = self._find_headroom(situation)
        if not self._trusts(situation) or room is None or room.possible() >= self._worth:
            return None
        self.saved.stopped = f"at most {room.possible():.2f}x left in the regions worked on"
        return self.saved.stopped

    def _trusts(self, situation: Situation) -> bool:
        return self.on and not situation.limit.busy

    def _find_headroom(self, situation: Situation) -> Headroom | None:
        room = headroom(situation, self._trusts(situation))
        if room is not None:
            for region in room.closed:
                self.saved.close(room.regions[region], room.seen[region].limit_share, situation.round)
        return room


def proportional(weights: Mapping[str, float], n: int) -> dict[str, int]:
    """`n` things by weight (largest remainder), without those that get none; empty when no weight is above 0."""
    total = sum(weights.values())
    if total <= 0 or n <= 0:
        return {}
    shares = {key: n * weight / total for key, weight in weights.items() if weight > 0}
    quotas = {key: math.floor(share) for key, share in shares.items()}
    for key in sorted(shares, key=lambda key: quotas[key] - shares[key])[: n - sum(quotas.values())]:
        quotas[key] += 1
    return {key: count for key, count in quotas.items() if count}
