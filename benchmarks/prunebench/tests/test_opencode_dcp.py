"""What the recordings cannot show: failed calls, which Chat Completions does not mark."""

from autoprune.apps.policies import PolicyPrompts
from autoprune.wire import new_parser, parse

from prunebench.policies import POLICIES

COMMANDS = [{"command": "make", "timeout": 3}, *({"command": f"ls {number}"} for number in range(1, 6))]


def conversation():
    yield {"role": "user", "content": "Go."}
    for number, arguments in enumerate(COMMANDS):
        call = {"type": "tool_use", "id": f"call_{number}", "name": "bash", "input": arguments}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": "no", "is_error": number < 2}
        yield {"role": "assistant", "content": [call]}
        yield {"role": "user", "content": [result]}


def test_text_arguments_of_a_failed_call_are_removed_four_answers_later():
    messages = list(conversation())
    transcript = parse(messages, new_parser(len, wants_inputs=True), 0)
    prompts = PolicyPrompts(POLICIES["opencode_dcp"].new(), transcript, transcript.requests)
    inputs = []
    for start in transcript.requests:
        sent = prompts.prune(messages[:start]).conversation
        inputs.append([message["content"][0]["input"] for message in sent if message["role"] == "assistant"])
    removed = "[input removed due to failed tool call]"  # as the original sent in the same conversation
    assert inputs[4] == COMMANDS[:4]
    assert inputs[5] == [{"command": removed, "timeout": 3}, *COMMANDS[1:5]]
    assert inputs[6] == [{"command": removed, "timeout": 3}, {"command": removed}, *COMMANDS[2:6]]
