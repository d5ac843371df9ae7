"""What stays whatever is folded or dropped: each rule alone, what belongs to what stays, how it is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from rounds import DIRECTIVES, WIRE, Step
from shipped import PRESETS
from tables import each_row
from written_short import every_native_format, messages

from autoprune import ConversationPruner, PruneArgs, Retention, SettingsError
from autoprune.conversation.transcript import Entry, Speaker
from autoprune.strategies.catalog import config, make_strategy
from autoprune.strategies.presets import keep_last, summarize, truncate

WIDE = 10**6  # tokens
ROLES = {"S": "system", "D": "developer", "U": "user", "A": "assistant"}
TURNS = "S U1 C1 R1 A1 U2 A2 U3 C3 R3 A3 U4"


def chat(short: str) -> list[dict[str, Any]]:
    """Messages that say their names; C1 is a call, and R1 its result."""
    return [message(name) for name in short.split()]


def message(name: str) -> dict[str, Any]:
    if name[0] == "C":
        call = {"id": name[1:], "type": "function", "function": {"name": "run", "arguments": "{}"}}
        return {"role": "assistant", "content": name, "tool_calls": [call]}
    if name[0] == "R":
        return {"role": "tool", "tool_call_id": name[1:], "content": name}
    return {"role": ROLES[name[0]], "content": name}


def names(conversation: list[Any]) -> str:
    return " ".join(message["content"] for message in conversation)


def left(retain: Retention, short: str = TURNS, keep: int = 1) -> str:
    """What stays when all but the last messages go."""
    strategy = replace(keep_last(keep), retain=retain)
    return names(ConversationPruner(PruneArgs(WIDE)).prune_conversations(chat(short), strategy))


def says(name: str) -> Callable[[Any], bool]:
    return lambda message: message["content"] == name


# Each rule alone

EACH = {
    "nothing": (Retention(), "S U4"),
    "no system message": (Retention(system=False), "U4"),
    "the first request": (Retention(first_request=True), "S U1 A3 U4"),
    "the last turn": (Retention(turns=1), "S U4"),
    "the last two turns": (Retention(turns=2), "S U3 C3 R3 A3 U4"),
    "more turns than there are": (Retention(turns=9), TURNS),
    "an index": (Retention(pinned={4}), "S A1 U4"),
    "a range": (Retention(pinned=range(4, 7)), "S A1 U2 A2 U4"),
    "a predicate": (Retention(pinned=says("A2")), "S A2 U4"),
    "a call": (Retention(pinned={2}), "S C1 R1 U4"),
    "a result": (Retention(pinned={3}), "S C1 R1 U4"),
    "a result that a predicate finds": (Retention(pinned=says("R3")), "S C3 R3 U4"),
    "what is not there": (Retention(pinned={99}, tags=("keep",)), "S U4"),
}


@each_row(("retain", "kept"), EACH.values(), ids=EACH)
def test_the_retained_messages_of_all_candidates(retain: Retention, kept: str):
    assert left(retain) == kept


# What belongs together


def test_the_users_current_request_always_stays():
    assert left(Retention(system=False), "U1 A1 U2 C1 R1 C2 R2 A2", keep=0) == "U2"


def test_system_and_developer_messages_stay_at_any_place():
    assert left(Retention(), "S D U1 A1 D2 U2 A2 U3") == "S D D2 U3"


@each_row("pinned", [1, 2, 3])
@every_native_format
def test_all_results_of_an_answer_stay_with_any_of_its_messages(written_in: str, pinned: int):
    conversation = messages("U A[c1] A[c2] R[c1] R[c2] U A U", written_in)
    answer = 6  # stays too, so that no results are joined with words
    strategy = replace(keep_last(1), retain=Retention(pinned={pinned, answer}))
    pruned = ConversationPruner(PruneArgs(WIDE)).prune_conversations(conversation, strategy)
    opening = conversation[:1] if written_in in ("anthropic", "bedrock", "gemini") else []
    assert pruned == [*opening, *conversation[1:5], *conversation[answer:]]


# Tags

TAGGED = {
    "a list": {"tags": ["keep", "other"]},
    "a tuple": {"tags": ("keep",)},
    "a set": {"tags": {"keep"}},
    "a text": {"tags": "keep"},
    "in the metadata": {"metadata": {"tags": ["keep"]}},
    "a text in the metadata": {"metadata": {"tags": "keep"}},
    "in both": {"tags": ["other"], "metadata": {"tags": ["keep"]}},
}


def with_first_answer(fields: dict[str, Any]) -> list[dict[str, Any]]:
    first, answer, *rest = chat("U1 A1 U2 A2 U3")
    return [first, {**answer, **fields}, *rest]


@each_row("fields", TAGGED.values(), ids=TAGGED)
@each_row("tags", [("keep",), ["nope", "keep"], "keep"], ids=["a tuple", "a list", "a text"])
def test_a_message_with_a_tag_stays(fields: dict[str, Any], tags: Any):
    strategy = replace(keep_last(1), retain=Retention(tags=tags))
    conversation = with_first_answer(fields)
    pruned = ConversationPruner(PruneArgs(WIDE)).prune_conversations(conversation, strategy)
    assert pruned == [conversation[1], conversation[4]]


@dataclass
class Tagged:
    """A message of some framework's."""

    role: str
    content: str
    tags: tuple[str, ...] = ()


def test_tags_of_an_object_count_too():
    conversation = [Tagged("user", "U1"), Tagged("assistant", "A1", ("keep",)), Tagged("user", "U2")]
    strategy = replace(keep_last(1), retain=Retention(tags=("keep",)))
    pruned = ConversationPruner(PruneArgs(WIDE)).prune_conversations([*conversation], strategy)
    assert pruned == conversation[1:]


# Roles

BY_ROLE = {
    (): "S U2 A2 U3 C3 R3 A3 U4",
    ("tool",): "S U1 A1 U2 A2 U3 C3 R3 A3 U4",
    ("assistant",): "S U1 C1 R1 U2 A2 U3 C3 R3 U4",
    ("user",): "S C1 R1 A1 U3 C3 R3 A3 U4",
    ("tool", "assistant"): "S U1 A1 U2 A2 U3 C3 R3 A3 U4",
}


@each_row(("roles", "kept"), BY_ROLE.items(), ids=map(str, BY_ROLE))
def test_roles_decide_the_order_of_removal(roles: tuple[str, ...], kept: str):
    conversation = chat(TURNS)
    strategy = replace(truncate(group_size=1), retain=Retention(roles=roles))
    limit = ConversationPruner(PruneArgs(WIDE)).count_tokens(conversation) - 6
    assert names(ConversationPruner(PruneArgs(limit)).prune_conversations(conversation, strategy)) == kept


# Roles alternate


def test_a_user_message_stays_between_two_kept_model_messages():
    assert left(Retention(pinned={1, 5}), "U1 A1 U2 A2 U3 A3 U4") == "A1 U3 A3 U4"


# How it is written


@each_row(
    ("parameters", "said"),
    [
        ({"system": 1}, "system is 1: give True or False"),
        ({"first_request": None}, "first_request is None: give True or False"),
        ({"turns": -1}, "turns is -1: give a number, 0 or more"),
        ({"turns": 1.5}, "turns is 1.5: give a number, 0 or more"),
        ({"turns": True}, "turns is True: give a number, 0 or more"),
        ({"pinned": 3}, "pinned is 3: give indexes of messages, 0 or more, or a predicate"),
        ({"pinned": ["3"]}, "pinned is ('3',): give indexes of messages, 0 or more, or a predicate"),
        ({"pinned": [-1]}, "pinned is (-1,): give indexes of messages, 0 or more, or a predicate"),
        ({"tags": 3}, "tags is 3: give texts"),
        ({"tags": ["keep", 3]}, "tags is ('keep', 3): give texts"),
        ({"roles": None}, "roles is None: choose from user, assistant, tool, in order of removal"),
        ({"roles": ("system",)}, "roles is ('system',): choose from user, assistant, tool, in order of removal"),
    ],
)
def test_an_unknown_parameter_is_reported(parameters: dict[str, Any], said: str):
    retain = Retention(**parameters)
    with pytest.raises(SettingsError) as refusal:
        ConversationPruner(PruneArgs()).prune([], replace(summarize(), retain=retain))
    assert str(refusal.value) == said


def test_a_value_that_is_not_a_retention_is_rejected():
    with pytest.raises(
        SettingsError, match=r"the strategy's retain is 5: give a Retention, such as Retention\(\.\.\.\)"
    ):
        ConversationPruner(PruneArgs()).prune([], replace(summarize(), retain=5))  # type: ignore[arg-type]


def test_collections_are_kept_in_a_form_that_can_be_compared():
    assert Retention(tags="a", roles=["tool"], pinned=[2, 1]) == Retention(
        tags=("a",), roles=("tool",), pinned=frozenset({1, 2})
    )


def test_a_retention_is_a_dict_in_a_strategy_given_as_text():
    strategy = make_strategy("keep_last(n=3, retain={'first_request': True, 'tags': ['keep']})", PRESETS)
    assert strategy == replace(keep_last(3), retain=Retention(first_request=True, tags=("keep",)))
    assert config(strategy)["retain"] == {"first_request": True, "tags": ("keep",)}


def test_an_index_is_that_of_the_message_alone():
    entry = Entry(Speaker.USER, 5)
    assert [Retention(pinned={1}).stays(at, entry) for at in range(3)] == [
        *(False, True, False),
    ]


@pytest.mark.parametrize("written_in", DIRECTIVES)
def test_the_newest_message_that_sets_the_effort_stays(written_in: str):
    low, high = map(DIRECTIVES[written_in], ("low", "high"))
    first, *others = WIRE[written_in]([[Step("read", {"path": f"{at}.py"}, "word " * 50)] for at in range(4)])
    result = ConversationPruner(PruneArgs(10)).prune([first, low, *others[:2], high, *others[2:]], keep_last(0))
    assert low not in result.conversation
    assert high in result.conversation
    assert result.report.notes == ()
