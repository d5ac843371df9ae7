"""A mistake in somebody's own policy is named, with its place and what to do."""

import pytest

from autoprune.apps.policies import Changes, PolicyPrompts
from autoprune.errors import SettingsError
from autoprune.wire import new_parser, parse

CALL = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
MESSAGES = [
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "long"},
]


def prompt(decide):
    class Own:
        def changes(self, request):
            return decide(request) if request.results else Changes()

    known = parse(MESSAGES, new_parser(len, wants_inputs=True), 0)
    prompts = PolicyPrompts(Own(), known, known.requests)
    return [prompts.prune(MESSAGES[:start]).conversation for start in known.requests][-1]


MISTAKES = {
    "test_own_policies.py, line": lambda request: request.results[7],
    "must return Changes, not NoneType": lambda _: None,
    "texts must map": lambda request: Changes(request.results),
    "one of call.inputs": lambda request: Changes({request.calls[0]: "x"}),
    "a text is given for 2": lambda _: Changes({2: "x"}),
    "must be str, not int": lambda request: Changes({request.results[0]: 5}),
    "no message 3 to be dropped": lambda _: Changes(dropped={3}),
    "no message -1": lambda _: Changes(dropped={-1}),
    "not ToolResult": lambda request: Changes(dropped=request.results),
    "the indexes are 0 to 3": lambda _: Changes(added={4: "x"}),
    "must be str, not list": lambda _: Changes(added={3: ["x"]}),
    "drops all messages": lambda _: Changes(dropped={0, 1, 2}),
}


@pytest.mark.parametrize("told", MISTAKES)
def test_a_mistake_is_named_with_the_request(told: str):
    with pytest.raises(SettingsError, match=told) as error:
        prompt(MISTAKES[told])
    assert str(error.value).startswith("Own.changes at request 1: ")


def test_correct_changes_are_applied():
    assert prompt(lambda _: Changes(dropped={1, 2}, added={3: "More."})) == [
        MESSAGES[0],
        {"role": "user", "content": "More."},
    ]
