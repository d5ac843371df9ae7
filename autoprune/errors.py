"""The errors that autoprune raises, split by who must act.

AutopruneError
├── SettingsError       the program that configures autoprune: a budget, a model or an option is wrong
├── ConversationError   the program that builds the messages: one of them is not a message (`path` says which)
│   └── RuleError       the same: the provider would refuse the messages (`prune(..., validate=True)`; `problems`)
└── SessionError        the person who names the file: it cannot be read as a conversation

    try:
        messages = pruner.prune_conversations(messages)
    except autoprune.AutopruneError as error:
        ...  # nothing was changed: send `messages` as they are, or stop
"""

from collections.abc import Sequence


class AutopruneError(ValueError):
    """Anything that autoprune refuses to do; the message says what is wrong, where, and what to do."""


class SettingsError(AutopruneError):
    """A setting that cannot be used."""


class ConversationError(AutopruneError):
    """A conversation that is none; `path` is the JSON path of the place, () for the whole."""

    def __init__(self, message: str, path: tuple[int | str, ...] = ()) -> None:
        """Say what is wrong, and where."""
        super().__init__(f"{message} (at {'.'.join(map(str, path))})" if path else message)
        self.path = path


class RuleError(ConversationError):
    """A conversation that its provider would refuse; `problems` are the rules that it breaks."""

    def __init__(self, message: str, problems: Sequence[object]) -> None:
        """Say what is wrong, and which rules are broken."""
        super().__init__(message)
        self.problems = tuple(problems)


class SessionError(AutopruneError):
    """A session file that cannot be read as a conversation; `line` is a broken one that could be left out."""

    def __init__(self, message: str, line: int | None = None) -> None:
        """Say what is wrong, and in which line alone."""
        super().__init__(message)
        self.line = line
