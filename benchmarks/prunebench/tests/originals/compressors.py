"""Record what headroom sends: what is new at each request is compressed, or the whole conversation.

Needs `pip install headroom-ai==0.42.0` beside autoprune. The policy calls the same package, so the tests compare
them only where it is installed.

    python tests/originals/compressors.py
"""

import copy
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "support")]

from policy_originals import conversations, differences, request_starts, write_recording  # noqa: E402

Messages = list[dict[str, Any]]
SLOW = ("long work with pauses", "turns with pauses")
Compress = Callable[..., Messages]


def headroom() -> Compress:
    """Return headroom's compression of messages without a system prompt, of which some are frozen."""
    os.environ.update(HEADROOM_OFFLINE="1", HEADROOM_WORKSPACE_DIR=mkdtemp())
    from headroom import compress

    def compressed(messages: Messages, frozen: int) -> Messages:
        return list(compress(messages, frozen_message_count=frozen, kompress_model="disabled").messages)

    return compressed


def prompts_of(messages: Messages, starts: Sequence[int], compress: Compress, *, frozen: bool) -> Iterator[Messages]:
    """Yield the prompt of each request; the system prompt is sent beside the messages, as with Anthropic's API.

    With `frozen`, the caller keeps what was sent, and has only the messages compressed that come after it.
    """
    system = [each for each in messages if each["role"] == "system"]
    sent: Messages = []
    for start in starts:
        rest = [each for each in copy.deepcopy(messages[:start]) if each["role"] != "system"]
        before = sent if frozen else []
        sent = compress([*before, *rest[len(before) :]], len(before))
        yield [*system, *copy.deepcopy(sent)]


def main(name: str, slow: tuple[str, ...], version: str, compress: Compress, **parameters: bool) -> None:
    """Write a recording, without the slow conversations."""
    sent = {}
    for conversation, known in conversations().items():
        if conversation in slow:
            continue
        frozen = parameters.get("frozen", True)
        prompts = prompts_of(known.messages, request_starts(known), compress, frozen=frozen)
        sent[conversation] = [differences(known.messages, prompt) for prompt in prompts]
    write_recording(name, version, sent, **parameters)


if __name__ == "__main__":
    main("headroom", SLOW, "headroom-ai 0.42.0", headroom())
    main("headroom.whole", SLOW, "headroom-ai 0.42.0", headroom(), frozen=False)
