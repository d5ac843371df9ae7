"""Why a part of a conversation was changed or kept: names for machines, sentences for people.

A strategy of one's own may give any short text as its reason, which is its own sentence.
"""

from enum import StrEnum

from autoprune.errors import SettingsError

LONGEST_REASON = 80  # characters


class Reason(StrEnum):
    """Why a part was changed or kept; `sentence` says it in words."""

    OVER_SAFE_ZONE = "over_safe_zone"
    TO_TARGET = "to_target"
    OUT_OF_REACH = "out_of_reach"
    CLAMPED = "clamped"
    SHORTENED = "shortened"
    TOO_MANY_MESSAGES = "too_many_messages"
    LEAST_HARMFUL = "least_harmful"
    BEGINS_WITH_USER = "begins_with_user"
    WITHIN_SAFE_ZONE = "within_safe_zone"
    NOT_CHOSEN = "not_chosen"
    UNSEEN = "unseen"
    NO_GAIN = "no_gain"
    ALREADY_CLEARED = "already_cleared"
    BOUND = "bound"
    PINNED = "pinned"
    PROTECTED_TOOL = "protected_tool"
    PROTECTED_PATH = "protected_path"
    INSTRUCTIONS = "instructions"
    USER_ANSWER = "user_answer"
    FAILED = "failed"
    SMALL = "small"
    AMONG_LAST = "among_last"
    IN_TOKEN_WINDOW = "in_token_window"

    @property
    def sentence(self) -> str:
        """Return the reason in words."""
        return SENTENCES[self]


SENTENCES: dict[str, str] = {
    Reason.OVER_SAFE_ZONE: "oldest first, until within the safe zone",
    Reason.TO_TARGET: "oldest first, down to the target",
    Reason.OUT_OF_REACH: "the safe zone is out of reach: all that can go, goes",
    Reason.CLAMPED: "larger than a result may be: cut to its head and tail",
    Reason.SHORTENED: "larger than a result may be: summed up",
    Reason.TOO_MANY_MESSAGES: "oldest first: more messages than are kept",
    Reason.LEAST_HARMFUL: "no cut was safe: this one does the least harm",
    Reason.BEGINS_WITH_USER: "the provider wants the user's message first",
    Reason.WITHIN_SAFE_ZONE: "not needed: the safe zone is reached",
    Reason.NOT_CHOSEN: "the strategy kept it",
    Reason.UNSEEN: "the model has not seen it yet",
    Reason.NO_GAIN: "a placeholder would not be smaller",
    Reason.ALREADY_CLEARED: "it was cleared before",
    Reason.BOUND: "thinking behind it is bound to it, and thinking_policy is 'refuse'",
    Reason.PINNED: "protected: its message is pinned",
    Reason.PROTECTED_TOOL: "protected: its tool",
    Reason.PROTECTED_PATH: "protected: its path",
    Reason.INSTRUCTIONS: "protected: a file of instructions",
    Reason.USER_ANSWER: "protected: the user's own words",
    Reason.FAILED: "protected: the call failed",
    Reason.SMALL: "protected: under the minimum size",
    Reason.AMONG_LAST: "protected: among the last results",
    Reason.IN_TOKEN_WINDOW: "protected: within the newest tokens",
}


def sentence(reason: str) -> str:
    """Return a reason in words: that of a strategy's own as it is."""
    return SENTENCES.get(reason, reason)


def told(reason: object) -> str:
    """Return a reason as it goes into the plan: on one line, a text of a strategy's own cut to 80 characters.

    Raises SettingsError for what is no text, or a blank one.
    """
    words = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not words:
        raise SettingsError(f"a strategy gave the reason {reason!r}: give a short text, such as 'largest first'")
    if words in SENTENCES:
        return Reason(words)
    return words if len(words) <= LONGEST_REASON else words[: LONGEST_REASON - 1].rstrip() + "…"
