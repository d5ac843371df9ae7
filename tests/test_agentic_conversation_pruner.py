"""A tour of the agentic pruner on a recorded session: detection, cleaning, statistics, before and after.

Run it by itself to read what it shows (`python tests/test_agentic_conversation_pruner.py`), or with pytest.
"""

import copy
import json
from pathlib import Path

from autoprune import AgenticConversationPruner, PruneArgs

SESSIONS = Path(__file__).parent.parent / "fixtures" / "sessions"
SAFE_ZONE = 20_000


def xml_session() -> list[dict[str, object]]:
    return json.loads((SESSIONS / "edit_loop_xml.json").read_text(encoding="utf-8"))


def openai_session() -> list[dict[str, object]]:
    lines = (SESSIONS / "edit_loop_openai.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def pruner(safe_zone: int = SAFE_ZONE) -> AgenticConversationPruner:
    return AgenticConversationPruner(args=PruneArgs(conversation_prune_safe_zone_tokens=safe_zone), llm=None)


def cleared(messages: list[dict[str, object]]) -> list[int]:
    sentence = pruner().replacement_message
    return [at for at, message in enumerate(messages) if sentence in str(message.get("content"))]


def test_detection_finds_every_result_of_the_recorded_session():
    messages = xml_session()
    holding = [at for at, message in enumerate(messages) if pruner()._is_tool_result_message(message["content"])]
    planned = {result.location.message for result in pruner().plan(messages).transcript.results}
    assert holding
    assert planned == {at for at in holding if messages[at]["role"] == "user"}


def test_cleaning_brings_the_recorded_session_within_the_safe_zone_oldest_first():
    for messages in (xml_session(), openai_session()):
        result = pruner().prune(messages)
        changed = [at for at, pair in enumerate(zip(messages, result.conversation, strict=True)) if pair[0] != pair[1]]
        assert pruner().count_tokens(messages) > SAFE_ZONE >= pruner().count_tokens(result.conversation)
        assert changed == cleared(result.conversation)
        kept = [part.location.message for part, reason in result.plan.kept.items() if reason == "within_safe_zone"]
        assert max(changed) <= min(kept)


def test_statistics_agree_with_the_report_and_with_a_count():
    for messages in (xml_session(), openai_session()):
        ours = pruner()
        result = ours.prune(messages)
        statistics = ours.get_cleanup_statistics(messages, result.conversation)
        assert statistics == result.report.statistics
        assert statistics["original_tokens"] == ours.count_tokens(messages)
        assert statistics["pruned_tokens"] == ours.count_tokens(result.conversation)
        assert statistics["tool_results_cleaned"] == len(result.plan.edits) > 0
        assert statistics["total_messages"] == len(messages)


def test_the_recorded_session_itself_stays_as_it_was():
    messages = xml_session()
    before = copy.deepcopy(messages)
    pruner().prune_conversations(messages)
    assert messages == before


def show(name: str, messages: list[dict[str, object]]) -> None:
    ours = pruner()
    result = ours.prune(messages)
    print(f"\n== {name}: {len(messages)} messages, {result.report.results} tool results")
    print(result.report)
    for figure, value in ours.get_cleanup_statistics(messages, result.conversation).items():
        print(f"   {figure:22} {value}")
    at = result.report.first_changed_message
    assert at is not None
    print(f"-- message {at} before:\n{str(messages[at]['content'])[:300]} …")
    print(f"-- message {at} after:\n{dict(result.conversation[at])['content']}")  # type: ignore[call-overload]


def main() -> None:
    for name, content in (
        ("a result", "<tool_result tool_name='ReadFileTool' success='true'><content>x</content></tool_result>"),
        ("a question", "What does `tool_result` mean?"),
    ):
        print(
            f"{name}: detected {pruner()._is_tool_result_message(content)}, tool {pruner()._extract_tool_name(content)}"
        )
    show("XML tool results", xml_session())
    show("OpenAI Chat", openai_session())
    tests = [value for name, value in globals().items() if name.startswith("test_")]
    for test in tests:
        test()
    print(f"\n{len(tests)} checks passed")


if __name__ == "__main__":
    main()
