"""The turns of a Codex session: a compaction replaces what was said, and a rollback takes turns back.

The rules are those of Codex's `rollout_reconstruction` and `compact` modules.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from autoprune.apps.sessions._json import Object, objects, text
from autoprune.apps.sessions._requests import Moment

# How texts begin that Codex itself puts into the user's mouth.
CONTEXT = (
    "# agents.md instructions",
    "<environment_context>",
    "<hook_prompt",
    "<skill>",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
)
KEPT_TOKENS = 20_000  # of the user's messages in a compaction that lists no history
BYTES_PER_TOKEN = 4  # as Codex estimates
NO_SUMMARY = "(no summary available)"
Item = Object
Entry = tuple[Item, Moment]


@dataclass
class CodexTurn:
    """What was said since the user's last message; `base` is what a compaction put in place of all before.

    `stretches` are what was sent when a compaction came, one for each.
    """

    base: Sequence[Entry] | None = None
    items: list[Entry] = field(default_factory=list)
    is_users: bool = False
    stretches: list[list[Entry]] = field(default_factory=list)


def _is_context(item: Item) -> bool:
    """Tell whether a message is Codex's own, under the user's name."""
    return any(text(part.get("text")).lstrip().lower().startswith(CONTEXT) for part in objects(item.get("content")))


def is_users(item: Item) -> bool:
    """Tell whether an item is what the user said."""
    return item.get("type") == "message" and item.get("role") == "user" and not _is_context(item)


def history(turns: Sequence[CodexTurn]) -> list[Entry]:
    """Return what is sent: the newest base, and all that was said since."""
    start = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].base is not None), 0)
    since = chain.from_iterable(turn.items for turn in turns[start:])
    return [*(turns[start].base or () if turns else ()), *since]


def open_turn(turns: list[CodexTurn]) -> None:
    """Begin a turn where the user speaks; context that was sent just before belongs to it."""
    last = turns[-1].items if len(turns) > 1 else []
    start = len(last)
    while start and last[start - 1][0].get("type") == "message" and _is_context(last[start - 1][0]):
        start -= 1
    moved = last[start:]
    del last[start:]
    turns.append(CodexTurn(items=moved, is_users=True))


def roll_back(turns: list[CodexTurn], count: object) -> None:
    """Take back the user's last `count` turns, and what came between them; what stands before the first one stays."""
    left = count if isinstance(count, int) else 0
    cut = at = len(turns)
    while left > 0 and at > 0:
        at -= 1
        if turns[at].is_users:
            cut, left = at, left - 1
    del turns[cut:]
    if not turns:
        turns.append(CodexTurn())


def compact_turns(turns: list[CodexTurn], payload: Object) -> None:
    """Put in place of all that was said what a compaction lists, or what Codex makes of its summary."""
    before = history(turns)
    replacement = payload.get("replacement_history")
    if isinstance(replacement, list):
        base = objects(replacement)
    else:
        base = _rebuilt([item for item, _ in before], text(payload.get("message")))
    turns[-1].stretches.append(before)
    turns[-1].base = [(item, None) for item in base]
    turns[-1].items = []


def _rebuilt(said: Sequence[Item], summary: str) -> list[Item]:
    """Return the history after a compaction that lists none: the newest of the user's messages, and the summary."""
    kept = list(_newest(_text_of(item) for item in reversed(said) if is_users(item) and not _is_summary(item, summary)))
    return [_message(each) for each in (*reversed(kept), summary or NO_SUMMARY)]


def _newest(texts: Iterator[str]) -> Iterator[str]:
    left = KEPT_TOKENS
    for said in texts:
        tokens = -(-len(said.encode(errors="replace")) // BYTES_PER_TOKEN)
        yield said if tokens <= left else _shortened(said, left * BYTES_PER_TOKEN)
        left -= tokens
        if left <= 0:
            return


def _shortened(said: str, size: int) -> str:
    """Return the head and the tail of a text, about `size` bytes of it."""
    data = said.encode(errors="replace")
    half = size // 2
    removed = (len(data) - 2 * half + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN
    head, tail = data[:half].decode(errors="ignore"), data[len(data) - half :].decode(errors="ignore")
    return f"{head}…{removed} tokens truncated…{tail}"


def _is_summary(item: Item, summary: str) -> bool:
    """Tell whether a message is the summary of an earlier compaction: it begins with the same line."""
    first = summary.partition("\n")[0]
    return bool(first) and "\n" in summary and _text_of(item).startswith(first + "\n")


def _text_of(item: Item) -> str:
    """Return the text of a message."""
    return "".join(text(part.get("text")) for part in objects(item.get("content")))


def _message(said: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}
