"""A text holds results only if the model made calls that it can answer; results that a user pastes are text."""

import json
import random
import re
from typing import Any

import pytest
from conversations import SENTENCE
from rounds_in_texts import CARRIERS
from tables import each_row

from autoprune import AgenticConversationPruner, ConversationError, ConversationPruner, PruneArgs

LOG = ("total = compute(left, right)\n" * 40).rstrip()
MARKER = "Fix it, and never push to main."
XML = f"<tool_result tool_name='read_file' success='true'>\n<content>{LOG}</content>\n</tool_result>"
CLINE = f"[read_file for 'a.py'] Result:\n{LOG}"
HERMES = f"<tool_response>\n{LOG}\n</tool_response>"
DIALECTS = {"xml": XML, "cline": CLINE, "tool_response": HERMES}
CALLS = {
    "xml": "I look.\n<read_file>\n<path>a.py</path>\n</read_file>",
    "cline": "I look.\n<read_file>\n<path>a.py</path>\n</read_file>",
    "tool_response": '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>',
}
PASTED = {
    "under words": f"The log shows:\n{CLINE}\n{MARKER}",
    "first": f"{CLINE}\n{MARKER}",
    "a response": f"{HERMES}\n{MARKER}",
    "in a sentence": f"As in <tool_result tool_name='a'>{LOG}\n{MARKER}</tool_result> here.",
    "indented": f"    <tool_result tool_name='a'>\n    {LOG}\n    {MARKER}\n    </tool_result>",
    "in a comment": f"<!-- <tool_result tool_name='a'>{LOG} {MARKER}</tool_result> -->",
    "Roo's": f"[execute_command for 'cd src\nls'] Result:\n{LOG}\n{MARKER}",
}
NATIVE: dict[str, list[Any]] = {
    "a text": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "a.py"},
    ],
    "a block": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "ls", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "a.py"}]},
    ],
    "an item": [
        {"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "a.py"},
    ],
    "bedrock": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "ls", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "a.py"}]}}]},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a.py"}}}]},
    ],
}


def pruner(safe_zone: int = 1, **args: Any) -> AgenticConversationPruner:
    return AgenticConversationPruner(PruneArgs(safe_zone, **args))


def talk(carrier: str, *said: str) -> list[Any]:
    """The user and the model in turn, the user first."""
    return [CARRIERS[carrier](("user", "assistant")[at % 2], text) for at, text in enumerate(said)]


def chat(*said: str) -> list[Any]:
    return talk("a text", *said)


def users(*said: str) -> list[Any]:
    return [{"role": "user", "content": text} for text in said]


def is_cleared(message: object) -> bool:
    return SENTENCE in json.dumps(message)


# The user's own words


@each_row("carrier", CARRIERS)
@each_row("text", PASTED.values(), ids=PASTED)
def test_results_pasted_before_the_models_first_message_are_the_users_text(carrier: str, text: str):
    conversation = [*talk(carrier, text, "It is fixed.", "Go on."), *NATIVE[carrier]]
    result = pruner().prune([*conversation, *talk(carrier, "", "So.")[1:]])
    assert result.conversation[0] is conversation[0]
    alone = talk(carrier, text)
    assert pruner().prune_conversations(alone) is alone


@each_row("carrier", CARRIERS)
@each_row("text", [*PASTED.values(), *DIALECTS.values()], ids=[*PASTED, *DIALECTS])
def test_results_pasted_after_native_calls_are_the_users_text(carrier: str, text: str):
    conversation = [*talk(carrier, "Go."), *NATIVE[carrier], *talk(carrier, "", "Done, see `<read_file>`.", "", "So.")]
    conversation[-2] = talk(carrier, text)[0]
    del conversation[-4]
    assert pruner().prune_conversations(conversation)[-2] is conversation[-2]


def test_a_text_may_answer_native_calls_that_have_no_native_result():
    """Some versions of Cline store calls of all providers as blocks, and the results as texts."""
    names = ("read_file", "read_file", "list_files")
    made = [{"type": "tool_use", "id": str(at), "name": name, "input": {}} for at, name in enumerate(names)]
    answer = [{"type": "text", "text": text} for text in (CLINE, CLINE, f"[execute_command for 'ls'] Result:\n{LOG}")]
    start = [*users("Go."), {"role": "assistant", "content": made}]
    conversation = [*start, {"role": "user", "content": answer}, *chat("", "So.")[1:], *users(CLINE)]
    result = pruner().prune([*conversation, *chat("", "Done.")[1:]])
    assert [is_cleared(block) for block in result.conversation[2]["content"]] == [True, True, False]
    assert result.conversation[4] is conversation[4]

    native = [{"type": "tool_result", "tool_use_id": call["id"], "content": "a.py"} for call in made]
    answered = [*start, {"role": "user", "content": [*native, *answer]}, *chat("", "So.")[1:]]
    assert not is_cleared(pruner().prune_conversations(answered)[2])


@pytest.mark.parametrize("dialect", ["cline", "tool_response"])
def test_a_dialect_without_an_opening_tag_before_it_is_text(dialect: str):
    other = CALLS["tool_response" if dialect == "cline" else "cline"]
    for said in ("I have looked.", "a < b, <b>, < tool_call>", other):
        conversation = chat("Go.", said, DIALECTS[dialect], "So.")
        assert pruner().prune_conversations(conversation) is conversation
    conversation = chat("Go.", CALLS[dialect], "And?", "Well.", DIALECTS[dialect], "So.")
    del conversation[2]
    assert is_cleared(pruner().prune_conversations(conversation)[-2])
    conversation = chat("Go.", CALLS[dialect], "And?", "Well.", DIALECTS[dialect], "So.")
    assert pruner().prune_conversations(conversation) is conversation


@each_row(
    ("said", "dialect"),
    [
        ("<tool_call>\n<function=read_file>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>", HERMES),
        (
            "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
            HERMES,
        ),
        ("I look: <tool_call>{}", HERMES),
        ("I look: <read_file><path>a.py</path></read_file>", CLINE),
        ("<read_file>\n<path>a.py", CLINE),
        ("<read_file", CLINE),
    ],
)
def test_an_opening_tag_is_enough_however_the_call_is_written(said: str, dialect: str):
    assert is_cleared(pruner().prune_conversations(chat("Go.", said, dialect, "So."))[2])


def test_of_several_headings_only_those_of_tools_that_were_called_are_results():
    other = CLINE.replace("read_file", "list_files")
    conversation = chat("Go.", CALLS["cline"], f"{CLINE}\n{other}", "So.")
    after = pruner().prune_conversations(conversation)[2]["content"]
    assert after == f"[read_file for 'a.py'] Result:\n{SENTENCE}\n{other}"


def test_xml_results_need_no_call_while_the_model_makes_none_natively():
    for text in (XML, f"Here:\n{XML}", f"Here: {XML}"):
        assert is_cleared(pruner().prune_conversations(chat("Go.", "I look.", text, "So."))[2])


def test_arguments_of_calls_decide_nothing_since_they_may_be_shortened():
    from autoprune import ToolInputs
    from autoprune.strategies.clearing import ToolOutputCleanup

    call = f"<write_file>\n<path>a</path>\n<content>{LOG}\n<tool_call></content>\n</write_file>"
    done = "<tool_result tool_name='write_file' success='true'>done</tool_result>"
    conversation = chat("Go.", call, f"{done}", "So.", "Yes.", "Well.")
    conversation.insert(3, {"role": "user", "content": HERMES})
    strategy = ToolOutputCleanup(clear_tool_inputs=ToolInputs(("*",), above=0))
    once = pruner().prune_conversations(conversation, strategy)
    assert once != conversation
    assert once[3] is conversation[3]
    assert pruner().prune_conversations(once, strategy) is once


def test_after_a_summary_only_a_tag_that_begins_a_line_is_a_call():
    summary = "[Summary of 9 earlier messages (max 100 tokens)]\nAll is well.\n[/Summary]"
    for said, text, is_result in (
        ("See `<read_file>`.", CLINE, False),
        ("I look.", f"See {XML}", False),
        (CALLS["cline"], CLINE, True),
        (CALLS["xml"], XML, True),
        ("<tool_call>\n<function=read_file>", HERMES, True),
    ):
        conversation = chat(summary, said, text, "So.")
        assert is_cleared(pruner().prune_conversations(conversation)[2]) is is_result


# Conversations that begin with results


def test_all_but_the_last_results_of_a_conversation_of_results_can_be_cleared():
    conversation = users("Go.", XML, f"{XML}\n{MARKER}", "Now?", XML)
    result = pruner().prune(conversation)
    assert [is_cleared(message) for message in result.conversation] == [False, True, True, False, False]
    assert MARKER in result.conversation[2]["content"]
    assert any("begins with results" in note for note in result.report.fallbacks)
    assert result.plan.transcript.requests == (2, 4, 5)


def test_decisions_made_before_the_model_speaks_stay():
    conversation = [*users("Go.", XML, XML), *chat("", "I see.", "Go on.")[1:]]
    fed = pruner(400)
    history: list[Any] = []
    for at, message in enumerate(conversation):
        history = fed.prune_conversations([*history, message])
        assert history == pruner(400).prune_conversations(conversation[: at + 1])
    assert is_cleared(history[1])
    assert any("begins with results" in note for note in fed.prune(conversation).report.fallbacks)


def test_a_first_message_of_results_is_unseen_until_a_request_follows():
    for conversation in (users(XML), users("Go.", XML, "Now?"), users(XML, f"See {XML}")):
        assert pruner().prune_conversations(conversation) is conversation
    assert is_cleared(pruner().prune_conversations(chat(XML, "I see."))[0])


# Why nothing was pruned


@each_row(
    ("text", "why"),
    [
        (f"Result:{XML}", "white space must precede it"),
        (f"結果：{XML}", "white space must precede it"),
        (f"```\n{XML}\n```", "it is in a fenced block"),
        (XML.replace("</tool_result>", ""), "it is never closed"),
        (XML.replace(" tool_name='read_file'", ""), "it names no tool"),
        (CLINE, "what the model said last holds no <read_file"),
        (HERMES, "what the model said last holds no <tool_call"),
    ],
)
def test_the_report_says_why_a_lookalike_is_no_result(text: str, why: str):
    conversation = chat("Go.", "I look.", text, "So.", text, "Well.")
    (note,) = pruner().prune(conversation).report.fallbacks
    assert why in note
    assert "messages 2, 4" in note
    fold = ConversationPruner(PruneArgs(1)).prune(conversation)
    assert any(why in note for note in fold.report.fallbacks)


def test_a_note_names_a_few_messages_and_is_not_repeated():
    ours, conversation = pruner(), chat(*["Go.", "I look."] * 2)
    for _ in range(9):
        conversation = [*conversation, *chat(f"Result:{XML}", "So.")]
        (note,) = ours.prune(conversation).report.fallbacks
    assert note.startswith("<tool_result …> in messages 4, 6, 8, 10, 12 and 4 more is no result")


def test_words_about_tags_and_conversations_within_the_safe_zone_are_not_noted():
    conversation = chat("Go.", "I look.", "What is `<tool_result tool_name='a'>`, a <tool_response> or <tool_result>?")
    assert pruner().prune(conversation).report.fallbacks == ()
    assert pruner(10**6).prune(chat("Go.", "I look.", f"Result:{XML}")).report.fallbacks == ()


@pytest.mark.parametrize("role", ["human", "ai", "model"])
def test_a_role_that_nobody_knows_is_noted(role: str):
    conversation = [{"role": role, "content": XML}, {"role": role, "content": XML}]
    (note,) = pruner().prune(conversation).report.fallbacks
    assert note.startswith(f"role {role!r} in messages 0, 1 is not known: give 'user', 'assistant' or 'tool'")


PYDANTIC_AI = "autoprune.integrations.pydantic_ai"


@pytest.mark.parametrize(
    ("package", "how"),
    [
        ("langchain_core.messages.human", "use autoprune.integrations.langchain, or formats=["),
        (
            "pydantic_ai.messages",
            "use autoprune.integrations.pydantic_ai, or formats=[autoprune.integrations.pydantic_ai_messages]",
        ),
        ("google.adk.events.event", "use autoprune.integrations.adk"),
        ("agents.items", "use autoprune.integrations.openai_agents"),
        ("smolagents.models", "see docs/integrations/recipes.md"),
        ("autogen_agentchat.messages", "see docs/integrations/recipes.md"),
        ("llama_index.core.llms", "convert with llama_index."),
    ],
)
def test_a_message_of_a_framework_is_an_error_that_names_its_adapter_or_recipe(package: str, how: str):
    message = type("HumanMessage", (), {"__module__": package})()
    message.role, message.content = "user", "Hi"
    with pytest.raises(ConversationError, match=re.escape(f"message 0 is HumanMessage of a framework: {how}")):
        pruner().prune([message])


@pytest.mark.parametrize("package", ["google.genai.types", "agents.messages"])
def test_a_package_that_has_a_frameworks_first_name_is_none(package: str):
    message = type("Content", (), {"__module__": package})()
    message.role, message.content = "user", "Hi"
    assert pruner().prune([message]).conversation == [message]


# Anything, mixed


def mixed(chance: random.Random) -> tuple[list[Any], list[str]]:
    """A conversation in dialects and native calls by turns, and what the user says in it that must never be lost."""
    carrier, markers = chance.choice(sorted(CARRIERS)), list[str]()

    def said(text: str) -> str:
        markers.append(f"Never push {len(markers)} to main.")
        return text.replace(MARKER, markers[-1]) if MARKER in text else f"{text}\n{markers[-1]}"

    def pasted() -> list[Any]:
        return talk(carrier, said(chance.choice([*PASTED.values(), f"\n{HERMES}"])))

    messages = [message for _ in range(chance.randrange(1, 4)) for message in pasted()]
    is_native = chance.random() < 0.5
    for _ in range(chance.randrange(8)):
        if is_native and chance.random() < 0.6:
            messages += [*NATIVE[carrier], *talk(carrier, "", chance.choice(("Done.", "So `<read_file>`.")))[1:]]
            messages += pasted()
        else:
            dialect = chance.choice([name for name in DIALECTS if name != "cline"])
            messages += talk(carrier, "", CALLS[dialect], said(DIALECTS[dialect]))[1:]
    return messages, markers


@each_row("seed", range(60))
def test_no_word_of_the_users_is_ever_lost_in_either_calling_style(seed: int):
    chance = random.Random(seed)
    messages, markers = mixed(chance)
    safe_zone = chance.choice((1, 500, 1_500))
    fed, history = pruner(safe_zone), list[Any]()
    for at, message in enumerate(messages):
        history = fed.prune_conversations([*history, message])
        if at == len(messages) - 1 or "role" not in message or message["role"] in ("assistant", "model"):
            assert history == pruner(safe_zone).prune_conversations(messages[: at + 1])
    written = json.dumps(history)
    assert [marker for marker in markers if marker not in written] == []
