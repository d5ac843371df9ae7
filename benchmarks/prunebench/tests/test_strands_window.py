"""Strands' window moves once for each invocation, however many messages the user sends with it."""

from policy_originals import Conversation, sent_by_policy


def test_several_messages_of_the_user_in_a_row_are_one_invocation():
    def said(number: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": f"Part {at}."} for at in range(number)]

    answer = [{"role": "assistant", "content": "ok"}]
    messages = [*said(57), *answer, *said(1), *answer, *said(3)]
    sent = sent_by_policy("strands_sliding_window", Conversation(messages))
    # What `Agent` of strands-agents 1.62.0 sends to its model if it is called with these lists of messages.
    assert [sum(last - first + 1 for first, last in request) for request in sent] == [57, 41, 43]
