"""The workers of a cluster as the driver knows them: started as nodes come, greeted, lost, set aside.

In: Ray's nodes. Out: `Member`s that may play. A worker plays once it has said what it is, and fits: of this version, on its own machine. One whose
process ends is greeted again when Ray has restarted it; one whose node is gone is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from .. import __version__
from ..machine import describe
from ..progress import Observer
from .messages import Hello, Setup
from .ray_engine import Slot, list_slots, start_actor
from .settings import RaySettings

REFRESH_S = 2.0  # between two looks at Ray's nodes
CLOCK_TIMEOUT_S = 20.0
CLOSE_S = 5.0  # for workers to leave nothing behind
MAX_LOSSES = 3  # of one worker, after which it is set aside
CLOCK_TOLERANCE_S = 2.0  # of a worker's clock, beyond what the way takes


@dataclass(eq=False)
class Member:
    slot: Slot
    actor: Any
    greeting: Any = None  # a reference to its hello; None: it has said it, or is lost
    hello: Hello | None = None
    ahead_s: float = 0.0  # by which its clock is ahead of the driver's
    stream: Any = None  # of the events of its job
    job: Any = None
    owner: str = ""  # of the runs that its process writes, as the archive names it
    losses: int = 0
    aside: str = ""  # why nothing of it is taken any more

    @property
    def name(self) -> str:
        return self.slot.name

    @property
    def is_idle(self) -> bool:
        return self.hello is not None and self.stream is None and not self.aside


class Members:
    def __init__(self, ray: Any, setup: Setup, settings: RaySettings, observer: Observer) -> None:
        """`setup`: of each worker, but for its name and number."""
        self._ray, self._setup, self._settings, self._observer = ray, setup, settings, observer
        self._device = "cpu" if setup.target == "cpu" else "cuda"
        self._members: dict[tuple[str, int], Member] = {}
        self._number, self._looked, self._alone_since = 0, 0.0, time.monotonic()

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    @property
    def active(self) -> list[Member]:
        """The members that may play, now or when they have said what they are."""
        return [m for m in self if not m.aside]

    @property
    def alone_s(self) -> float:
        """Seconds since there was a worker that may play."""
        if self.active:
            self._alone_since = time.monotonic()
        return time.monotonic() - self._alone_since

    def refresh(self) -> None:
        """Start a worker in each new slot."""
        if time.monotonic() - self._looked < REFRESH_S:
            return
        self._looked = time.monotonic()
        for slot in list_slots(self._ray, self._device, self._settings):
            if slot.key not in self._members:
                update = {
                    "name": slot.name,
                    "number": self._number,
                    "share": slot.share,
                    "shares": slot.shares,
                }
                self._number += 1
                actor = start_actor(self._ray, slot, self._setup.model_copy(update=update), self._settings)
                self._members[slot.key] = member = Member(slot, actor)
                member.greeting = actor.hello.remote()

    def greet(self, member: Member) -> None:
        """Hear what a worker is; one that does not fit is set aside."""
        greeting, member.greeting = member.greeting, None
        try:
            hello = Hello.model_validate_json(self._ray.get(greeting))
            member.ahead_s = self._compare_clocks(member)
        except self._ray.exceptions.RayTaskError as error:
            return self.set_aside(member, f"it does not start: {_last_line(error)}")
        except self._ray.exceptions.RayError as error:
            return self.lose(member, _last_line(error))
        except ValidationError:
            return self.set_aside(member, "it does not say what it is")
        if reason := self._why_unfit(hello):
            return self.set_aside(member, reason)
        member.hello = hello
        clock = (
            f"; its clock is {member.ahead_s:+.0f} s off, its times are corrected" if member.ahead_s else ""
        )
        self._observer.note(f"{member.name} joins: {hello.environment.hardware}{clock}")

    def _compare_clocks(self, member: Member) -> float:
        """By how much a worker's clock is ahead of this machine's; 0 where that cannot be told from the time of the way."""
        before = time.time()
        time_there = float(self._ray.get(member.actor.clock.remote(), timeout=CLOCK_TIMEOUT_S))
        heard = time.time()
        ahead_s = time_there - (before + heard) / 2
        return ahead_s if abs(ahead_s) > (heard - before) / 2 + CLOCK_TOLERANCE_S else 0.0

    def _why_unfit(self, hello: Hello) -> str:
        version = describe().warpsmith
        if hello.environment.warpsmith not in (version, ""):
            return f"it has warpsmith {hello.environment.warpsmith}, and this is {version or __version__}"
        hosts = [m.hello.host for m in self.active if m.hello is not None]
        if self._settings.one_a_machine and self._device == "cpu" and hello.host in hosts:
            return "another worker is on its machine, whose timings it would disturb"
        return ""

    def set_aside(self, member: Member, reason: str) -> None:
        """Take nothing of a worker any more, and say so."""
        member.aside, member.greeting, member.stream = reason, None, None
        self._observer.note(f"{member.name} is set aside: {reason}")
        self._ray.kill(member.actor, no_restart=True)

    def lose(self, member: Member, reason: str) -> None:
        """A worker's process or node is gone: Ray restarts the one, the other is forgotten."""
        member.hello, member.greeting, member.stream, member.job = None, None, None, None
        member.losses += 1
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        if member.slot.node_id not in alive:
            self._observer.note(f"{member.name} is lost with its node")
            del self._members[member.slot.key]
        elif member.losses >= MAX_LOSSES:
            self.set_aside(member, f"it ended {member.losses} times: {reason}")
        else:
            self._observer.note(f"{member.name} is lost and starts again: {reason}")
            member.greeting = member.actor.hello.remote()

    def close(self) -> None:
        closing = [member.actor.close.remote() for member in self if member.hello is not None]
        with suppress(self._ray.exceptions.RayError):
            self._ray.wait(closing, num_returns=len(closing), timeout=CLOSE_S) if closing else None
        for member in self:
            self._ray.kill(member.actor, no_restart=True)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
