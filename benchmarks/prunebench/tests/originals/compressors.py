"""Record what headroom sends: it compresses the whole conversation before each request.

Needs `pip install headroom-ai==0.42.0` beside autoprune. The policy calls the same package, so tests/policies compares
them only where it is installed.

    python tests/originals/compressors.py
"""

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]

from policy_originals import conversations, differences, request_starts, write_recording  # noqa: E402

Messages = list[dict[str, Any]]


def headroom() -> Callable[[Messages], Messages]:
    """Return headroom's compression; the system prompt is passed beside the messages, as with Anthropic's API."""
    os.environ.update(HEADROOM_OFFLINE="1", HEADROOM_WORKSPACE_DIR=mkdtemp())
    from headroom import compress

    def compressed(messages: Messages) -> Messages:
        system = [each for each in messages if each["role"] == "system"]
        rest = [each for each in messages if each["role"] != "system"]
        return [*system, *compress(rest, kompress_model="disabled").messages]

    return compressed


def main(name: str, slow: tuple[str, ...], version: str, compress: Callable[[Messages], Messages]) -> None:
    """Write the recording, without the slow conversations."""
    sent = {}
    for conversation, known in conversations().items():
        if conversation in slow:
            continue
        starts = request_starts(known)
        prompts = [compress(copy.deepcopy(known.messages[:start])) for start in starts]
        sent[conversation] = [differences(known.messages, prompt) for prompt in prompts]
    write_recording(name, version, sent)


if __name__ == "__main__":
    main("headroom", ("long work with pauses", "turns with pauses"), "headroom-ai 0.42.0", headroom())
