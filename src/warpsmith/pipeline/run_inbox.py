"""The inbox of one run, as its search sees it; and that of a recorded run that is searched again."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.live import Request, RequestStatus
from .live import LiveActivity


class RunInbox:
    """Gives the search what waits, and, where the run is resumed, what its earlier process did before this round."""

    def __init__(self, live: LiveActivity, run_id: str) -> None:
        self._live, self._run_id = live, run_id
        self._earlier = live.inbox.list_taken_before(run_id)

    def take(self, round_number: int) -> Sequence[Request]:
        earlier = [r for r in self._earlier if r.round == round_number]
        self._earlier = [r for r in self._earlier if r.round > round_number]
        waiting = self._live.inbox.list_waiting(self._live.activity_id, self._run_id)
        fresh = [r for r in waiting if r.kind != "stop"]
        for request in fresh:
            self._live.inbox.take(request, self._run_id, round_number)
            self._live.say(f"request {request.number}: {request.kind}")
        return [*earlier, *fresh]

    def answer(self, request: Request, status: RequestStatus, text: str) -> None:
        self._live.inbox.answer(request, status, text)
        self._live.say(f"request {request.number}, {request.kind}: {text}")
        if request.kind == "pin" and status == "done":
            self._live.change(pinned=request.body.get("candidate", ""))


class RecordedInbox:
    """What people asked of a recorded run, before the same rounds."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests

    def take(self, round_number: int) -> Sequence[Request]:
        return [r for r in self._requests if r.round == round_number]

    def answer(self, request: Request, status: RequestStatus, text: str) -> None:
        """It was answered then."""
