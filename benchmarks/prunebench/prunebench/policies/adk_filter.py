"""ADK's context filter: send only the newest invocations, each a prompt of the user with the work that followed."""

from collections.abc import Sequence

from autoprune.apps.policies import NOTHING, Changes, RequestView
from autoprune.conversation.transcript import Location

from prunebench.policies._chat import Chat, ChatMessage
from prunebench.policies._published import Published

KEPT = 3  # invocations, as in ADK's own examples; the plugin keeps all by default


class AdkContextFilter:
    """Send the newest `num_invocations_to_keep` invocations if there are `remove_amount` more."""

    def __init__(self, num_invocations_to_keep: int = KEPT, remove_amount: int = 1) -> None:
        """Set the options of `ContextFilterPlugin`."""
        self._keep, self._remove_amount = num_invocations_to_keep, remove_amount
        self._chat = Chat()

    def changes(self, request: RequestView) -> Changes:
        """Drop all messages before the first invocation that is kept."""
        chat = self._chat.before(request)
        starts = _invocations(chat)
        if len(starts) < self._keep + self._remove_amount:
            return NOTHING
        first = _with_calls(chat, starts[-self._keep], request)
        return Changes(dropped={at for message in chat[:first] if message.role != "system" for at in message.at})


def _invocations(chat: Sequence[ChatMessage]) -> list[int]:
    """Return the indexes of the user's prompts; only the first of several in a row, and no text beside results."""
    starts: list[int] = []
    was_prompt = False
    for index, message in enumerate(chat):
        is_prompt = message.role == "user" and _begins_recorded_message(chat, index)
        if is_prompt and not was_prompt:
            starts.append(index)
        was_prompt = is_prompt
    return starts


def _begins_recorded_message(chat: Sequence[ChatMessage], index: int) -> bool:
    return not index or chat[index - 1].at[-1] != chat[index].at[0]


def _with_calls(chat: Sequence[ChatMessage], first: int, request: RequestView) -> int:
    """Return the last index up to `first` from which every result comes after its call."""
    needed: set[Location] = set()
    for index in range(len(chat) - 1, -1, -1):
        result = chat[index].result
        if result and result.call:
            needed.add(result.call.location)
        else:
            needed -= {call.location for at in chat[index].at for call in request.entries[at].calls}
        if index <= first and not needed and _begins_recorded_message(chat, index):
            return index
    return 0


PUBLISHED = (
    Published(
        name="adk_context_filter",
        new=AdkContextFilter,
        tool="Google ADK",
        source=(
            "github.com/google/adk-python, src/google/adk/plugins/context_filter_plugin.py, google-adk 2.13.0 "
            "(2026-10-23): ContextFilterPlugin"
        ),
        decides=(
            "Only the newest invocations are sent: prompts of the user, each with the answers, calls and results that "
            "followed. Each request is decided afresh from the whole session."
        ),
        defaults="num_invocations_to_keep 3 as in ADK's examples (the plugin keeps all by default), remove_amount 1",
        left_out="custom_filter; ADK's compaction of events, in which a model writes summaries.",
        idle="In the first three invocations: a task of one prompt, however long, is never filtered.",
        checked="google-adk 2.13.0",
    ),
)
