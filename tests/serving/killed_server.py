"""A scripted service over HTTP that kills itself (SIGKILL) at a named stage, once: PORT TOKEN ARCHIVE STAGE.

Stages: accepted, opening, screening, judging, before-row, confirming, none. What is judged is appended to ARCHIVE.judged.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warpsmith.authoring import task_queries
from warpsmith.authoring.service import AuthoringService
from warpsmith.config import Config
from warpsmith.records import Candidate, Result
from warpsmith.serving.running import Address, listen, serve
from warpsmith.testing import ScriptedAuthorSession

port, token, archive, stage = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
judged = archive.with_suffix(".judged")


def die(at: str) -> None:
    if at == stage:
        os.kill(os.getpid(), signal.SIGKILL)


class Session(ScriptedAuthorSession):
    def __init__(self, *arguments: Any) -> None:
        die("opening")
        super().__init__(*arguments)

    def screen(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Result]]:
        for number, pair in enumerate(super().screen(candidates)):
            note("screened", pair[0])
            if number:
                die("screening")
            yield pair

    def judge_candidate(self, candidate: Candidate, known: Result | None = None) -> Result:
        die("judging")
        if known is None:
            note("judged", candidate)
        else:
            note("confirmed", candidate)
        result = super().judge_candidate(candidate, known)
        die("before-row")
        return result


def note(what: str, candidate: Candidate) -> None:
    with judged.open("a") as file:
        file.write(f"{what} {candidate.content_key}\n")


class Service(AuthoringService):
    def _start(self, *arguments: Any) -> None:
        die("accepted")
        super()._start(*arguments)


def add_confirmation(run_id: str | None, candidate: Candidate, result: Result) -> None:
    die("confirming")  # the first verdict is in the archive, its confirmation is not
    type(service.archive).add_confirmation(service.archive, run_id, candidate, result)


task_queries.find_peaks = lambda config, target: None  # type: ignore[assignment]
service = Service(Config(archive=archive, cache=archive.parent / "cache"), open_session=Session)
service.archive.add_confirmation = add_confirmation  # type: ignore[method-assign]
address = Address(port=port)
listening = listen(address)
service.resume()
serve(service, {"ada": token}, address, archive.with_suffix(".audit"), listening)
