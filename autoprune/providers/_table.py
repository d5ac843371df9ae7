"""The providers that ship, by their names, and which of them a conversation is written for."""

from collections.abc import Sequence

from autoprune.conversation.messages import fields
from autoprune.errors import SettingsError, did_you_mean
from autoprune.formats import SHIPPED, Format
from autoprune.providers._anthropic import PROVIDER as ANTHROPIC
from autoprune.providers._bedrock import PROVIDER as BEDROCK
from autoprune.providers._gemini import PROVIDER as GEMINI
from autoprune.providers._openai_chat import PROVIDER as OPENAI_CHAT
from autoprune.providers._openai_responses import PROVIDER as OPENAI_RESPONSES
from autoprune.providers._problem import Provider

# To ship a provider, write its module in this package and add a line.
SHIPPED_PROVIDERS = (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    OPENAI_CHAT,
    OPENAI_RESPONSES,
)
PROVIDERS = {provider.name: provider for provider in SHIPPED_PROVIDERS}
NAMES = {name: provider for provider in SHIPPED_PROVIDERS for name in (provider.name, *provider.other_names)}
OPENAI = ("openai", "azure", "azure_openai")  # one of the two, whichever the conversation is written in
USER_FIRST = tuple(provider.name for provider in SHIPPED_PROVIDERS if provider.begins_with_user)


def resolved(provider: object, conversation: Sequence[object]) -> Provider:
    """Return a provider by any of its names, or itself; for None the one that a conversation is written for.

    Raises SettingsError for an unknown name.
    """
    if isinstance(provider, Provider):
        return provider
    if provider is None:
        return _detected(conversation)
    wanted = provider.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(provider, str) else ""
    if wanted in OPENAI:
        found = _detected(conversation)
        return found if found is OPENAI_RESPONSES else OPENAI_CHAT
    if wanted in NAMES:
        return NAMES[wanted]
    names = sorted({*NAMES, *OPENAI})
    near = did_you_mean(wanted, names)
    raise SettingsError(f"the rules of provider {provider!r}{near} are not known; known are {', '.join(names)}")


def _detected(conversation: Sequence[object]) -> Provider:
    """Return the provider of the first message that shows one; OpenAI's Chat Completions where none does."""
    marked = (each.NAME for message in conversation for each in SHIPPED if is_marked(message, each))
    return PROVIDERS[next(marked, OPENAI_CHAT.name)]


def is_marked(message: object, written_in: Format) -> bool:
    """Return whether a message shows for certain that it is written in a format."""
    held = fields(message)
    return held is not None and written_in.seen(held) is not None
