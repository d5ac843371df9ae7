"""Instruction files and skills arrive as user messages and as results of tools. Folding keeps them."""

from typing import Any

import pytest
from conversations import words
from rounds import WIRE, Step
from shipped import PRESETS

from autoprune import ConversationPruner, PruneArgs, problems

RULE = "Never push to main."
# How agents' programs send an instruction file or a skill.
SENT = {
    "Codex": f"# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>\n{RULE}\n</INSTRUCTIONS>",
    "Codex, earlier": f"<user_instructions>\n{RULE}\n</user_instructions>",
    "Claude Code": f"<system-reminder>\n# claudeMd\nContents of /repo/CLAUDE.md (project):\n{RULE}\n</system-reminder>",
    "Gemini CLI": f"This is the Gemini CLI. We are setting up the context.\n--- Context from: GEMINI.md ---\n"
    f"{RULE}\n--- End of Context from: GEMINI.md ---\n\nWhy is the build slow?",
    "a skill": f"Base directory for this skill: /skills/release\n\n{RULE}",
}


def is_sent(conversation: list[Any]) -> bool:
    return RULE in repr(conversation)


def reads(first: int) -> list[list[Step]]:
    return [[Step("read_file", {"path": f"{at}.py"}, words(700))] for at in range(first, first + 8)]


@pytest.mark.full
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("sent", SENT.values(), ids=[*SENT])
def test_a_message_with_instructions_is_never_folded(preset: str, sent: str):
    for messages in (
        WIRE["anthropic"](["Fix it.", sent, *reads(0), "Go on.", *reads(8)]),
        WIRE["openai_chat"]([sent, "Fix it.", *reads(0), "Go on.", *reads(8)]),
        WIRE["gemini"]([sent, *reads(0), "Go on.", *reads(8)]),
    ):
        pruned = ConversationPruner(PruneArgs(4_000)).prune(messages, preset).conversation
        assert pruned != messages or preset == "per_result"  # which shortens only large results
        assert is_sent(pruned)
        assert problems(pruned) == []
