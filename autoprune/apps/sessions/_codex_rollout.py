"""Reader of Codex's rollouts: JSONL of `{type, payload}`, or bare items before September 2025. Returns Responses items.

The rules are those of Codex's `rollout_reconstruction` and `compact` modules.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from autoprune.apps.sessions._json import NOTHING, Object, compact, fields, objects, text
from autoprune.apps.sessions._recording import (
    Answer,
    Conversation,
    Moment,
    Reader,
    Usage,
    bad_record,
    besides,
    build_usage,
    join_parts,
    note,
    parse_time,
    prompt_note,
)
from autoprune.apps.sessions._sending import OUTPUTS, RESPONSES, conversation, stretch

ABORTED = "aborted"  # Codex's output for an interrupted call
# Types of lines in the current format.
KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
# Types of items that Codex sends to the API.
SENT = frozenset(
    (
        *("agent_message", "message", "reasoning", "compaction", "context_compaction"),
        *("custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output", "local_shell_call"),
        *("tool_search_call", "tool_search_output", "web_search_call", "image_generation_call"),
    )
)
# Items for Codex itself: dropping them needs no note.
UNSENT = frozenset(("compaction_trigger", "ghost_snapshot"))
INTERNAL = "internal_chat_message_metadata_passthrough"  # Codex's field for its own metadata, which is not sent
# Prefixes of texts that Codex itself sends as the user.
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
COPYING = 0.3  # seconds: the lines that a fork copies follow one another faster, and its first answer comes later
KEPT_TOKENS = 20_000  # of the user's messages; a compaction without a listed history keeps the newest
BYTES_PER_TOKEN = 4  # Codex's estimate
NO_SUMMARY = "(no summary available)"
Item = Object
OTHERS = ("user", "system", "developer")  # the roles of messages that are not the model's
Entry = tuple[Item, Moment]


@dataclass
class CodexTurn:
    """The items of a user's turn.

    `base` is the history that replaced everything before a compaction. `stretches` holds the entries that were sent
    before each compaction. `unanswered` holds the data of requests whose answers have no item but reasoning, or none.
    """

    base: Sequence[Entry] | None = None
    items: list[Entry] = field(default_factory=list)
    is_users: bool = False
    stretches: list[list[Entry]] = field(default_factory=list)
    unanswered: list[Answer] = field(default_factory=list)


@dataclass(frozen=True)
class Record:
    """A line of the log, with the current model, and the `usage` of a request unless the line repeats a report.

    `is_copy` says that the line is of the session that this one was forked from, which paid for its requests.
    """

    kind: str
    payload: Object
    time: float | None = None
    model: str = ""
    usage: Usage | None = None
    is_copy: bool = False

    @property
    def event(self) -> str:
        """The type of the event; "" if the line is not an event."""
        return text(self.payload.get("type")) if self.kind == "event_msg" else ""


def detect(values: Sequence[object]) -> bool:
    """Look for a line of `{type, payload}` with one of Codex's types, or for the header of its first format."""
    return any(
        (value.get("type") in KINDS and isinstance(value.get("payload"), dict)) or _is_bare_header(value)
        for value in map(fields, values[:100])  # every rollout has one early, and other files may be long
    )


def read(values: Sequence[object]) -> list[Conversation]:
    """Read the one conversation in a rollout, with compactions and rollbacks applied.

    Raises SessionError for a line of another kind.
    """
    records = list(_records(values))
    said = [item for item, _ in history(_read_turns(records, []))]
    sent = [item for item in map(_as_sent, said) if item]
    followed = _without_lone_reasoning(sent)
    alone = note("reasoning that nothing follows, left out", len(sent) - len(followed))
    return [conversation(RESPONSES, followed, ABORTED, (*_rollout_notes(records), *_unsent_notes(said), *alone))]


def _without_lone_reasoning(items: Sequence[Item]) -> list[Item]:
    """Drop reasoning that no item of the model follows, since the API rejects it."""
    kept: list[Item] = []
    is_followed = False
    for item in reversed(items):
        if item.get("type") != "reasoning":
            is_followed = _is_answer(item)
        if item.get("type") != "reasoning" or is_followed:
            kept.append(item)
    return kept[::-1]


def record(values: Sequence[object]) -> list[list[Conversation]]:
    """Read the one conversation in a rollout as its stretches between compactions. Raises like `read`."""
    gone: list[CodexTurn] = []
    turns = _read_turns(list(_records(values)), gone)
    stretches = [*chain.from_iterable(turn.stretches for turn in turns), history(turns)]
    found = [_stretch(entries) for entries in stretches]
    rolled_back = (entries for turn in gone for entries in (*turn.stretches, turn.items))
    answers = (answer for entries in (*stretches, *rolled_back) for answer in _answers(entries))
    held = {id(request.usage) for each in found for request in each.requests}
    others = (answer for answer in answers if id(answer.usage) not in held)
    paid = dict.fromkeys((*others, *(answer for turn in (*turns, *gone) for answer in turn.unanswered)))
    found[-1] = replace(found[-1], besides=besides(paid, found))
    return [found]


def _answers(entries: Sequence[Entry]) -> Iterator[Answer]:
    """Yield the data of each request, also of those whose answer is not sent again because it ends with an open call.

    Of several requests in a row, the recording has the first.
    """
    moments = (moment for item, moment in entries if item.get("type") != "reasoning")
    for is_answered, run in groupby(moments, lambda each: isinstance(each, Answer)):
        if is_answered:
            parts = [part for part in run if isinstance(part, Answer)]
            yield (first := join_parts(parts))
            yield from (part for part in parts if part.usage and part.usage is not first.usage)


def _stretch(entries: Sequence[Entry]) -> Conversation:
    sent = ((_as_sent(item), moment) for item, moment in entries if item.get("type") != "reasoning")
    return stretch(RESPONSES, ((item, moment) for item, moment in sent if item))


def _is_bare_header(value: Object) -> bool:
    is_header = "instructions" in value and "id" in value and "timestamp" in value and "type" not in value
    return is_header or value.get("record_type") == "state"


def _records(values: Sequence[object]) -> Iterator[Record]:
    """Yield each line as a record; a bare item is a response item."""
    model, total = "", NOTHING
    copied = _count_copied(values)
    for at, value in enumerate(values, 1):
        line = fields(value)
        payload = line.get("payload")
        if isinstance(payload, dict):
            kind = text(line.get("type"))
            model = text(payload.get("model")) or model if kind == "turn_context" else model
            info = fields(payload.get("info")) if kind == "event_msg" else NOTHING
            is_new = fields(info.get("total_token_usage")) != total  # Codex often repeats a report
            total = fields(info.get("total_token_usage")) or total
            usage = _usage(fields(info.get("last_token_usage"))) if is_new and at > copied else None
            yield Record(kind, payload, parse_time(line.get("timestamp")), model, usage, at <= copied)
        elif _is_bare_header(line):
            continue
        elif text(line.get("type")):
            yield Record("response_item", line)
        else:
            raise bad_record("is not a line of a Codex session: it has neither a payload nor a type", at)


def _count_copied(values: Sequence[object]) -> int:
    """Count the lines at the start that a fork or a sub-agent copied from its origin, with its own header.

    Codex copies those lines at once, with new timestamps or with their own, which are older. The first answer of the
    fork comes later.
    """
    lines = [*map(fields, values)]
    began = parse_time(lines[0].get("timestamp")) if lines else None
    if began is None or not _is_fork(lines):
        return 0
    before: float | None = None
    for at, line in enumerate(lines[1:], 1):
        time = parse_time(line.get("timestamp"))
        if time is not None and before is not None and time >= max(began, before + COPYING):
            return at
        before = before if time is None else time
    return len(lines)


def _is_fork(lines: Sequence[Object]) -> bool:
    """Return whether the header names another session, or the lines hold the header of another one."""
    headers = [fields(line.get("payload")) for line in lines if line.get("type") == "session_meta"]
    first = headers[0] if headers else NOTHING
    origin = first.get("forked_from_id") or first.get("parent_thread_id") or fields(first.get("source")).get("subagent")
    return bool(origin) or any(each.get("id") != first.get("id") for each in headers)


def _usage(last: Object) -> Usage | None:
    prompt, cached, written = (last.get(f"{kind}input_tokens") for kind in ("", "cached_", "cache_write_"))
    return build_usage(prompt, cached, written, last.get("output_tokens"))


def _read_turns(records: Sequence[Record], gone: list[CodexTurn]) -> list[CodexTurn]:
    """Apply all lines to turns; those that were rolled back are added to `gone`."""
    turns = [CodexTurn()]
    # Older logs have no events for turns: in these, a turn starts at the user's message.
    starts = any(each.event in ("task_started", "turn_started") for each in records)
    for each in _with_usage_after(records):
        _apply_record(turns, each, starts, gone)
    return turns


def _with_usage_after(records: Sequence[Record]) -> Iterator[Record]:
    """Yield the usage of each request after the first part of its answer; until Codex 0.63 it was logged before it."""
    is_before = _logs_usage_first(records)
    held: Record | None = None
    for each in records:
        if is_before and each.usage:
            yield from (held,) if held else ()
            held = each
            continue
        yield each
        if held and each.kind == "response_item" and _is_answer(each.payload):
            yield held
            held = None
    yield from (held,) if held else ()


def _logs_usage_first(records: Sequence[Record]) -> bool:
    """Return whether in most turns the first usage comes before the first part of an answer."""
    turns: Counter[bool] = Counter()
    is_open = is_answered = False
    for each in records:
        if each.kind == "response_item":
            is_new = is_user_message(each.payload)
            is_open, is_answered = is_open or is_new, not is_new and (is_answered or _is_answer(each.payload))
        elif each.usage and is_open:
            turns[is_answered] += 1
            is_open = False
    return turns[False] > turns[True]


def _apply_record(turns: list[CodexTurn], record: Record, starts: bool, gone: list[CodexTurn]) -> None:
    """Apply a line to the turns; `starts` is whether the log has events for turns."""
    payload = record.payload
    if record.event in ("task_started", "turn_started"):
        turns.append(CodexTurn())
    elif record.event == "thread_rolled_back":
        gone += roll_back(turns, payload.get("num_turns"))
    elif record.event == "user_message" and starts:
        turns[-1].is_users = True
    elif record.event == "token_count" and record.usage:
        _attach_usage(turns[-1], Answer(record.time, record.model, record.usage))
    elif record.kind == "compacted":
        compact_turns(turns, payload)
    elif record.kind == "response_item":
        if is_user_message(payload) and not starts:
            open_turn(turns)
        moment = Answer(record.time, record.model) if _is_answer(payload) else record.time
        turns[-1].items.append((payload, None if record.is_copy else moment))
        turns[-1].is_users |= is_user_message(payload)


def _is_answer(item: Item) -> bool:
    """Return whether recordings keep an item as the model's answer or as a part of an answer."""
    is_given = text(item.get("type")) in OUTPUTS or item.get("role") in OTHERS
    return not is_given and item.get("type") != "reasoning" and _as_sent(item) is not None


def _attach_usage(turn: CodexTurn, paid: Answer) -> None:
    """Attach the usage of a request to the newest answer of the turn, unless that has one."""
    for at in range(len(turn.items) - 1, -1, -1):
        item, moment = turn.items[at]
        if isinstance(moment, Answer) and not moment.usage:
            turn.items[at] = item, replace(moment, usage=paid.usage)
            return
        if isinstance(moment, Answer):
            break
    turn.unanswered.append(paid)


def _as_sent(item: Item) -> Item | None:
    """Convert an item to the form that Codex sends; None if Codex does not send it."""
    kind = text(item.get("type"))
    bare = {name: value for name, value in item.items() if value is not None and name != INTERNAL}
    if kind == "message":
        return bare if item.get("role") != "system" and item.get("content") else None
    if kind == "reasoning":
        return bare if any(bare.get(name) for name in ("id", "encrypted_content", "summary", "content")) else None
    if kind in ("function_call_output", "custom_tool_call_output"):
        return {**bare, "output": _plain_output(item.get("output"))}
    if kind == "compaction_summary":  # the first name of `compaction`
        return {**bare, "type": "compaction"}
    return bare if kind in SENT else None


def _plain_output(value: object) -> object:
    """Return an output as text or blocks; early rollouts hold `{content, success}`."""
    if isinstance(value, str | list):
        return value
    content = fields(value).get("content")
    return content if isinstance(content, str) else compact(value)


def _rollout_notes(records: Sequence[Record]) -> Iterator[str]:
    prompt = next((each.payload.get("base_instructions") for each in records if each.kind == "session_meta"), None)
    size = len(text(fields(prompt).get("text")))
    yield prompt_note(size, "items")
    kinds = Counter(each.event or each.kind for each in records)
    yield from note("compactions", kinds["compacted"])
    yield from note("rollbacks", kinds["thread_rolled_back"])
    yield from note("messages between agents, left out", kinds["inter_agent_communication"])


def _unsent_notes(said: Sequence[Item]) -> Iterator[str]:
    unsent = [text(item.get("type")) for item in said if not _as_sent(item)]
    unknown = sorted({kind for kind in unsent if kind not in SENT | UNSENT})
    yield from note("empty reasoning items, left out", unsent.count("reasoning"))
    yield from (f"items of unknown types, left out: {', '.join(unknown)}",) if unknown else ()


# Turns: a compaction replaces all of them, and a rollback removes the last ones


def _is_context(item: Item) -> bool:
    """Return whether Codex itself sent a message as the user."""
    return any(text(part.get("text")).lstrip().lower().startswith(CONTEXT) for part in objects(item.get("content")))


def is_user_message(item: Item) -> bool:
    return item.get("type") == "message" and item.get("role") == "user" and not _is_context(item)


def history(turns: Sequence[CodexTurn]) -> list[Entry]:
    """Return the entries that are sent: the newest base, and all later items."""
    start = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].base is not None), 0)
    since = chain.from_iterable(turn.items for turn in turns[start:])
    return [*(turns[start].base or () if turns else ()), *since]


def open_turn(turns: list[CodexTurn]) -> None:
    """Start a turn of the user, including the context that Codex sent just before."""
    last = turns[-1].items if len(turns) > 1 else []
    start = len(last)
    while start and last[start - 1][0].get("type") == "message" and _is_context(last[start - 1][0]):
        start -= 1
    moved = last[start:]
    del last[start:]
    turns.append(CodexTurn(items=moved, is_users=True))


def roll_back(turns: list[CodexTurn], count: object) -> list[CodexTurn]:
    """Remove and return the user's last `count` turns and all between them, but nothing before the user's first."""
    left = count if isinstance(count, int) else 0
    cut = at = len(turns)
    while left > 0 and at > 0:
        at -= 1
        if turns[at].is_users:
            cut, left = at, left - 1
    removed = turns[cut:]
    del turns[cut:]
    if not turns:
        turns.append(CodexTurn())
    return removed


def compact_turns(turns: list[CodexTurn], payload: Object) -> None:
    """Replace all turns by the history that a compaction lists, or that Codex builds from its summary."""
    before = history(turns)
    replacement = payload.get("replacement_history")
    if isinstance(replacement, list):
        base = objects(replacement)
    else:
        base = _rebuild_history([item for item, _ in before], text(payload.get("message")))
    turns[-1].stretches.append(before)
    # The earlier turns stay in the list, so that a rollback of this turn also undoes the compaction.
    turns[-1].base = [(item, None) for item in base]
    turns[-1].items = []


def _rebuild_history(said: Sequence[Item], summary: str) -> list[Item]:
    """Build the history after a compaction that lists none: the user's newest messages and the summary."""
    kept = list(
        _newest_texts(
            _item_text(item) for item in reversed(said) if is_user_message(item) and not _is_summary(item, summary)
        )
    )
    parts = ({"type": "input_text", "text": each} for each in (*reversed(kept), summary or NO_SUMMARY))
    return [{"type": "message", "role": "user", "content": [part]} for part in parts]


def _newest_texts(texts: Iterator[str]) -> Iterator[str]:
    left = KEPT_TOKENS
    for said in texts:
        tokens = -(-len(said.encode(errors="replace")) // BYTES_PER_TOKEN)  # rounded up, as in Codex
        yield said if tokens <= left else _cut_middle(said, left * BYTES_PER_TOKEN)
        left -= tokens
        if left <= 0:
            return


def _cut_middle(said: str, size: int) -> str:
    """Cut the middle out of a text, so that about `size` bytes are left."""
    data = said.encode(errors="replace")
    half = size // 2
    removed = (len(data) - 2 * half + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN
    head, tail = data[:half].decode(errors="ignore"), data[len(data) - half :].decode(errors="ignore")
    return f"{head}…{removed} tokens truncated…{tail}"


def _is_summary(item: Item, summary: str) -> bool:
    """Return whether a message is the summary of an earlier compaction, which starts with the same line."""
    first = summary.partition("\n")[0]
    return bool(first) and "\n" in summary and _item_text(item).startswith(first + "\n")


def _item_text(item: Item) -> str:
    return "".join(text(part.get("text")) for part in objects(item.get("content")))


PLACES = (".codex/sessions/**/rollout-*.jsonl", ".codex/archived_sessions/rollout-*.jsonl")
READER = Reader("codex", detect, read, record, PLACES)
