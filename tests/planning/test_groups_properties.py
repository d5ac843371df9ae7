"""What holds for every conversation: cuts break nothing, and they stay as it grows."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from halves import broken, halves
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rounds import (
    WIRE,
    Calls,
    Round,
    Step,
    anthropic_calls,
    anthropic_results,
    responses_calls,
    responses_results,
    written,
)
from rounds_in_texts import CARRIERS, DIALECTS, in_text
from written_short import FORMATS, entries, parsed

from autoprune import problems
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.planning._groups import boundaries, units
from autoprune.wire import anthropic, responses

CHECKED = examples(150)

# Valid conversations

STEPS = st.builds(Step, st.sampled_from(("read_file", "run")), st.just({"path": "a.py"}), st.just("Done."))
ROUNDS = st.lists(st.one_of(st.lists(STEPS, min_size=1, max_size=3), st.just("And now?")), max_size=8)
SYSTEM = {"role": "system", "content": "You fix bugs."}
# What dropping messages does to who speaks first and next: a cut does not look after that.
ORDER = {"first_message", "alternation", "call_place"}


def reasoned(steps: Calls) -> list[Any]:
    """Calls behind an item of reasoning, which may not stand alone."""
    reasoning = {"type": "reasoning", "id": f"rs_{steps[0][0]}", "summary": [], "encrypted_content": "gAAA"}
    return [reasoning, {"role": "assistant", "content": "I look."}, *responses_calls(steps)]


def thought(steps: Calls) -> list[Any]:
    """Calls behind a block of thinking."""
    (message,) = anthropic_calls(steps)
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    return [{**message, "content": [thinking, *message["content"]]}]


WRITERS = {
    **{(name, name): write for name, write in WIRE.items()},
    ("reasoning", "openai_responses"): partial(written, say=responses.message, call=reasoned, answer=responses_results),
    ("thinking", "anthropic"): partial(written, say=anthropic.message, call=thought, answer=anthropic_results),
}


def without(messages: Sequence[Any], drawn: Sequence[bool]) -> list[Any]:
    """What remains when some units are taken out, but for the system's messages."""
    found = parsed(messages)
    goes = {at for unit, is_drawn in zip(units(found), drawn, strict=False) if is_drawn for at in unit}
    staying = (at for at, entry in enumerate(found) if at not in goes or entry.speaker is Speaker.SYSTEM)
    return [messages[at] for at in staying]


@CHECKED
@given(made=ROUNDS, of=st.sampled_from(sorted(WRITERS)), begins=st.booleans(), drawn=st.lists(st.booleans()))
def test_removing_any_units_breaks_no_rule(made: list[Round], of: tuple[str, str], begins: bool, drawn: list[bool]):
    has_system = begins and of[1].startswith("openai")  # the others take it beside the messages
    messages = [*([SYSTEM] if has_system else []), *WRITERS[of](made)]
    assert problems(messages, of[1]) == []
    remaining = without(messages, drawn)
    assert [problem for problem in problems(remaining, of[1]) if problem.rule not in ORDER] == []
    assert remaining[:1] == [SYSTEM] or not has_system
    assert broken(parsed(remaining)) == []


@CHECKED
@given(
    made=ROUNDS,
    dialect=st.sampled_from(sorted(DIALECTS)),
    carrier=st.sampled_from(sorted(CARRIERS)),
    drawn=st.lists(st.booleans()),
)
def test_removing_any_units_leaves_no_half_of_a_pair_in_texts(
    made: list[Round], dialect: str, carrier: str, drawn: list[bool]
):
    messages = in_text(made, dialect, carrier)
    assert broken(parsed(messages)) == []
    assert broken(parsed(without(messages, drawn))) == []


# Any conversation, broken ones too

WORDS = st.sampled_from(("S", "U", "U", "A", "A", "A[a]", "A[a]", "A[b]", "R[a]", "R[a]", "R[b]", "R[x]"))
ANY = st.builds(entries, st.lists(WORDS, max_size=12).map(" ".join), st.sampled_from(sorted(FORMATS)))


def whole(found: Sequence[Entry]) -> list[tuple[int, int]]:
    """The calls that have their results, and those."""
    return [(call, result) for call, result in halves(found) if call is not None and result is not None]


def orphans(found: Sequence[Entry]) -> set[int | None]:
    return {result for call, result in halves(found) if call is None}


def is_models(found: Sequence[Entry], at: int) -> bool:
    return found[at].speaker is Speaker.MODEL


def is_safe(found: Sequence[Entry], at: int) -> bool:
    """The rules for a cut, one by one."""
    if at in (0, len(found)):
        return True
    if is_models(found, at - 1) and is_models(found, at):
        return False
    return at not in orphans(found) and not any(call < at <= result for call, result in whole(found))


@CHECKED
@given(found=ANY)
def test_cuts_are_exactly_the_places_that_separate_no_group(found: Sequence[Entry]):
    assert boundaries(found) == [at for at in range(len(found) + 1) if is_safe(found, at)]
    assert [at for unit in units(found) for at in unit] == list(range(len(found)))
    assert all(units(found))
