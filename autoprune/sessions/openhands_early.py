"""OpenHands' events of 2024, which name neither who spoke nor, in some files, what answers what."""

from collections.abc import Iterable, Iterator, Mapping

from autoprune.sessions.json_values import fields

Event = Mapping[str, object]
SPOKEN = "message"


def is_event(event: Event) -> bool:
    """Whether an object is an action or an observation, with or without a source."""
    if "source" in event:
        return "action" in event or "observation" in event
    is_action = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    is_observation = isinstance(event.get("observation"), str) and isinstance(event.get("content"), str)
    return is_action or (is_observation and isinstance(event.get("extras"), dict))


def completed(events: Iterable[Event]) -> Iterator[Event]:
    """The events with what later versions say themselves: their ids, their sources, and which action was observed.

    An observation belongs to the action right before it. The first message is the user's, and so is one right behind
    a message of the agent's, which had waited for it; all else is the agent's.
    """
    action: Event = {}
    is_users_turn = True
    for number, event in enumerate(events):
        known = event
        if "source" not in event and is_event(event):
            if "action" in event:
                waits = fields(event.get("args")).get("wait_for_response") is True
                is_users = event["action"] == SPOKEN and is_users_turn and not waits
                known = {"id": f"at_{number}", **event, "source": "user" if is_users else "agent"}
            else:
                cause = {"cause": action["id"]} if "id" in action else {}
                known = {**cause, **event, "source": "environment"}
        yield known
        if "action" in known:
            action = known
            is_users_turn = known["action"] == SPOKEN and known.get("source") == "agent"
