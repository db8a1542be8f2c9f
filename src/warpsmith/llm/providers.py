"""From a model's name to the object that asks it.

In: "provider:name" as pydantic-ai knows them, and the settings. Out: its Model, and the secrets that must never be
repeated. Keys come from the environment, each provider's under its own name; a server at `base_url` is sent
`WARPSMITH_API_KEY` and no other. Raises UsageError: no extra, no key, no such provider.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..config import Config
from ..errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

EXTRA = "language models need pydantic-ai: pip install 'warpsmith[llm]'"
SERVER_KEY = "WARPSMITH_API_KEY"
COMPATIBLE = ("openai", "openai-chat")  # providers whose models may be served at base_url
MOST_BYTES = 16 << 20  # of a response from base_url
SECRET_NAME = re.compile(r"(API_?KEY|TOKEN|SECRET|ACCESS_KEY)$")
SECRET_LENGTH = 8  # shorter values would be found in ordinary text


def parse_provider(name: str) -> str:
    """The provider of "provider:name". Raises UsageError for anything else."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model) or re.search(r"\s", name):
        raise UsageError(f"model {name!r}: give PROVIDER:NAME, like openai:NAME or anthropic:NAME, or expert")
    return provider


def find_base_url(name: str, config: Config) -> str | None:
    """The base URL that this model is asked at; None: its provider's own."""
    return config.base_url if parse_provider(name) in COMPATIBLE else None


def check_base_url(url: str) -> None:
    """Raises UsageError unless it is an http address without anything secret in it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--base-url {url}: give an address like http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise UsageError(
            f"--base-url: no user, password or query in it, they would be kept; set {SERVER_KEY}"
        )


def build(name: str, config: Config) -> Model:
    """The model, ready to be asked. Nothing is sent."""
    provider, url = parse_provider(name), find_base_url(name, config)
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
    except ImportError:
        raise UsageError(EXTRA) from None
    try:
        return infer_model(name) if url is None else _compatible(name, url)
    except UserError as error:
        raise UsageError(f"model {name}: {_shorten_message(str(error))}") from None
    except ImportError as error:
        text = " ".join(str(error).split())
        raise UsageError(f"model {name}: a package of {provider} is missing: {text}") from None
    except ValueError as error:
        raise UsageError(f"model {name}: {' '.join(str(error).split())[:200]}") from None


def _shorten_message(problem: str) -> str:
    """pydantic-ai's message, shortened to which variable is missing where it names one."""
    variables = re.findall(r"`([A-Z][A-Z0-9_]+)`", problem)
    if variables:
        return f"no key: set {' or '.join(dict.fromkeys(variables))} in the environment"
    return " ".join(problem.split())[:200]


def _compatible(name: str, url: str) -> Model:
    """A model of any server that speaks OpenAI's chat completions: vLLM, Ollama, llama.cpp."""
    import httpx2
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    client = httpx2.AsyncClient(timeout=None, event_hooks={"response": [_limit_bytes]})
    # Every such server knows `max_tokens`; not all know the newer `max_completion_tokens`.
    profile = OpenAIModelProfile(openai_chat_supports_max_completion_tokens=False)
    key = os.environ.get(SERVER_KEY)
    provider = OpenAICompatibleProvider(
        "server", base_url=url, api_key=key, http_client=client, profile=profile
    )
    return OpenAIChatModel(name.partition(":")[2], provider=provider)


async def release(model: Model) -> None:
    """Close its connections, where its provider's client can: OpenAI's and Anthropic's."""
    close = getattr(getattr(model.provider, "client", None), "close", None)
    if inspect.iscoroutinefunction(close):
        await close()


async def _limit_bytes(response: Any) -> None:
    """An answer without end must not fill the memory: the connection is dropped at MOST_BYTES."""
    import httpx2

    stream = response.stream

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MOST_BYTES:
                    raise httpx2.ReadError(f"the response is longer than {MOST_BYTES >> 20} MiB")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


def secrets() -> tuple[str, ...]:
    """Values of this environment that look like keys, longest first."""
    values = {v for k, v in os.environ.items() if SECRET_NAME.search(k) and len(v) >= SECRET_LENGTH}
    return tuple(sorted(values, key=len, reverse=True))


def keys_found() -> list[str]:
    """Names of the variables that hold a provider's key."""
    return sorted(k for k, v in os.environ.items() if k.endswith("_API_KEY") and v)
