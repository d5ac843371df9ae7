"""LiteLLM's `completion` with pruned prompts, offline with the scripted model of this folder.

pip install '.[litellm]' && python examples/litellm_calls.py
"""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read at import: do not fetch prices from the network

import litellm
from attached_client import READ_LOG, conversation
from scripted_model import serve

from autoprune import AgenticConversationPruner, PruneArgs
from autoprune.integrations.litellm import prunes


def main() -> None:
    """Send the same conversation twice, and print the size of both prompts in the model's tokens."""
    pruner = AgenticConversationPruner(PruneArgs("8k", model="gpt-5"))
    request = {"model": "openai/scripted", "messages": conversation(days=8), "tools": [READ_LOG]}
    with serve() as url:
        for name, completion in (("plain", litellm.completion), ("pruned", prunes(litellm.completion, pruner))):
            answer = completion(**request, api_base=url, api_key="none")
            print(f"{name}: {answer.usage.prompt_tokens:,} tokens")


if __name__ == "__main__":
    main()
