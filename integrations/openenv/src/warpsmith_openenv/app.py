"""The server: `warpsmith-openenv`, or `uvicorn warpsmith_openenv.app:app`.

In: WARPSMITH_TASKS (names with commas between them), WARPSMITH_FORM ("solution" or "unit"), WARPSMITH_TRIES, WARPSMITH_SESSIONS (episodes side by
side), and what `warpsmith.environment.from_variables` reads: WARPSMITH_SERVER, WARPSMITH_TOKEN_FILE, WARPSMITH_TARGET, WARPSMITH_REWARD_MODE. Out: OpenEnv's
HTTP and WebSocket faces. It has no tokens of its own: keep it on the loopback address or inside of your network.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, get_args

import uvicorn
from openenv.core.env_server import create_fastapi_app

from warpsmith.environment.from_variables import find_scorer
from warpsmith.errors import UsageError, WarpsmithError

from .environment import TRIES, Form, KernelEnvironment
from .messages import KernelAction, KernelObservation

if TYPE_CHECKING:
    from fastapi import FastAPI

SESSIONS = 16
FORMS: tuple[Form, ...] = get_args(Form)


def make_environment() -> KernelEnvironment:
    """Make the environment of one session. Raises UsageError, one line, for a variable with a wrong value."""
    tasks = [name.strip() for name in os.environ.get("WARPSMITH_TASKS", "").split(",") if name.strip()]
    form_name = os.environ.get("WARPSMITH_FORM", FORMS[0])
    form = next((f for f in FORMS if f == form_name), None)
    if form is None:
        raise UsageError(f"WARPSMITH_FORM={form_name[:40]}: give one of {', '.join(FORMS)}")
    return KernelEnvironment(find_scorer(), tasks, form, read_number("WARPSMITH_TRIES", TRIES))


def read_number(name: str, default: int) -> int:
    """Read a positive number. Raises UsageError."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name}={text[:40]}: give a whole number from 1 on")
    return int(text)


def make_app() -> FastAPI:
    """Make the application. Raises UsageError for a variable with a wrong value."""
    return create_fastapi_app(
        make_environment,
        KernelAction,
        KernelObservation,
        max_concurrent_envs=read_number("WARPSMITH_SESSIONS", SESSIONS),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="warpsmith-openenv", description="Serve Warpsmith's judge as an OpenEnv environment."
    )
    parser.add_argument("--host", default="127.0.0.1", help="anybody who reaches it may have kernels judged")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    try:
        make_environment()  # what is wrong is told now, not to the first client
        uvicorn.run(make_app(), host=options.host, port=options.port, log_level="warning")
    except WarpsmithError as error:
        print(f"warpsmith-openenv: {error}", file=sys.stderr)
        return 2
    return 0


def __getattr__(name: str) -> Any:
    """Make `app` when a server asks for it, so that importing this module reads no variable."""
    if name == "app":
        return make_app()
    raise AttributeError(name)


if __name__ == "__main__":
    raise SystemExit(main())
