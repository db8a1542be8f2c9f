"""A harness that asks the model once a turn, in this process: a policy that writes kernels needs no tools, no sandbox and no program.

In: the conversation so far. Out: a model call through verifiers' interception, which is the record of what ran.
"""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire


class KernelsHarnessConfig(vf.HarnessConfig):
    pass


class KernelsHarness(vf.Harness[KernelsHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: vf.ModelContext, trace: vf.Trace, runtime: vf.Runtime, endpoint: str, secret: str, mcp_urls: dict[str, str], data: vf.TaskData
    ) -> vf.ProgramResult:  # fmt: skip
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(message) for message in prompt or []]
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0, timeout=None) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


__all__ = ["KernelsHarness", "KernelsHarnessConfig"]
