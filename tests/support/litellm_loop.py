"""The tool loop with LiteLLM's functions, over HTTP."""

import os
from dataclasses import replace
from typing import Any

from client_loops import CHAT, RESPONSES, Loop
from strict_provider.server import Provider

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read at import: nothing is fetched from elsewhere


def of_function(loop: Loop, provider: Provider) -> Loop:
    """Return a loop over an API of OpenAI with a function of LiteLLM in the client's place."""
    address = {"model": "openai/gpt-4.1", "api_base": f"{provider.url}/v1", "api_key": "none"}
    return replace(loop, method=lambda function: function, request=loop.request | address)


def chat(function: Any, provider: Provider) -> list[Any]:
    return of_function(CHAT, provider).run(function)


async def chat_async(function: Any, provider: Provider) -> list[Any]:
    return await of_function(CHAT, provider).run_async(function)


async def responses_async(function: Any, provider: Provider) -> list[Any]:
    return await of_function(RESPONSES, provider).run_async(function)
