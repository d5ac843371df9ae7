"""The recorded requests of logs that only benchmarks read: their times, pauses, models and usage."""

import json

from autoprune.apps.sessions import Request, Usage, recordings
from session_texts import Value, asked, clock, stretches
from tables import each_row


def openhands(seconds: int, event_id: int, source: str, **more: Value) -> Value:
    return {"id": event_id, "timestamp": clock(seconds).rstrip("Z"), "source": source, **more}


def ran(seconds: int, event_id: int, response: str, **more: Value) -> Value:
    """An action from a response; `response` is the id of both, and of the call."""
    called = {"id": response, "function": {"name": "bash", "arguments": "{}"}}
    answer = {"choices": [{"message": {"content": "", "tool_calls": [called]}}]}
    metadata = {"tool_call_id": response, "model_response": {"id": response, "model": "m", **answer, **more}}
    return openhands(seconds, event_id, "agent", action="run", args={}, tool_call_metadata=metadata)


def saw(seconds: int, event_id: int, call: str) -> Value:
    seen = {"observation": "run", "content": call.upper(), "tool_call_metadata": {"tool_call_id": call}}
    return openhands(seconds, event_id, "agent", **seen)


def test_openhands_is_recorded_in_stretches_between_condensations():
    usage = {"prompt_tokens": 60, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 40}}
    metric = {"response_id": "b", "prompt_tokens": 70, "cache_read_tokens": 60, "cache_write_tokens": 9}
    forget = {"forgotten_event_ids": [2, 3], "summary": "so far", "summary_offset": 1}
    history = [
        openhands(0, 1, "user", action="message", args={"content": "go"}),
        ran(2, 2, "a", usage=usage),
        saw(5, 3, "a"),
        ran(8, 4, "b"),
        saw(9, 5, "b"),
        openhands(10, 6, "agent", action="condensation", args=forget),
        ran(12, 7, "c"),
        saw(13, 8, "c"),
    ]
    text = json.dumps({"history": history, "metrics": {"token_usages": [metric]}})
    used = {"model": "m", "usage": Usage(60, 40, 0, 5)}
    assert stretches(text) == [
        (
            ["user:go", "assistant:bash", "tool:A", "assistant:bash", "tool:B"],
            (asked(1, 2, None, **used), asked(3, 8, 3, model="m", usage=Usage(70, 60, 9))),
        ),
        (
            ["user:go", "user:so far", "assistant:bash", "tool:B", "assistant:bash", "tool:C"],
            (asked(4, 12, None, model="m", usage=None),),
        ),
    ]


def test_an_openhands_response_costs_the_increase_of_the_accumulated_cost():
    def metered(event: Value, spent: float) -> Value:
        return {**event, "llm_metrics": {"accumulated_cost": spent}}

    counts = {"usage": {"prompt_tokens": 60, "completion_tokens": 5}}
    history = [
        openhands(0, 1, "user", action="message", args={"content": "go"}),
        metered(ran(2, 2, "a", **counts), 0.1),
        metered(saw(5, 3, "a"), 0.1),
        metered(openhands(6, 4, "agent", action="condensation", args={}), 0.4),
        metered(ran(7, 5, "b", **counts), 0.6),
        saw(8, 6, "b"),
        metered(ran(9, 7, "c", **counts), 0.6),
        saw(10, 8, "c"),
    ]
    found = [request for _, requests in stretches(json.dumps({"history": history})) for request in requests]
    assert [request.usage for request in found] == [Usage(60, output=5, cost=cost) for cost in (0.1, 0.2, None)]


def test_traes_prompts_to_anthropic_include_cached_tokens():
    usage = {"input_tokens": 5, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 7, "output_tokens": 4}
    given = [{"role": "user", "content": "go"}]
    exchange = {"provider": "anthropic", "input_messages": given, "response": {"content": "Done.", "usage": usage}}
    [(_, [request])] = stretches(json.dumps({"llm_interactions": [exchange], "agent_steps": []}))
    assert request.usage == Usage(42, 30, 7, 4)


def test_traes_pauses_last_until_the_answer_because_results_have_no_times():
    def exchange(seconds: int, given: Value, **response: Value) -> Value:
        usage = {"input_tokens": 50, "cache_read_input_tokens": 30, "output_tokens": 4}
        answered = {"model": "m", "usage": usage, **response}
        return {"timestamp": clock(seconds), "input_messages": [given], "response": answered}

    task = {"role": "user", "content": "go"}
    back = {"role": "user", "tool_result": {"call_id": "a", "result": "A"}}
    exchanges = [
        exchange(0, task, content="", tool_calls=[{"call_id": "a", "name": "bash"}]),
        exchange(9, back, content="Done.", tool_calls=[{"call_id": "b", "name": "task_done"}]),
    ]
    used = {"model": "m", "usage": Usage(50, 30, 0, 4)}
    said = ["user:go", "assistant:bash", "tool:A", "assistant:Done."]
    assert stretches(json.dumps({"llm_interactions": exchanges, "agent_steps": []})) == [
        (said, (asked(1, 0, None, **used), asked(3, 9, 9, **used)))
    ]


def test_inspect_is_recorded_from_its_events():
    call = {"id": "c", "function": "bash", "arguments": {}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "id": "x", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "C"},
        {"role": "assistant", "id": "y", "content": "Done."},
    ]
    usage = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 44, "input_tokens_cache_read": 30}
    output = {"model": "m", "usage": usage, "choices": [{"message": {"id": "x"}}]}
    events = [
        {"event": "model", "timestamp": clock(0), "completed": clock(2), "output": output},
        {"event": "tool", "id": "c", "timestamp": clock(2), "completed": clock(8)},
        {"event": "model", "model": "n", "completed": clock(9), "output": {"choices": [{"message": {"id": "y"}}]}},
    ]
    text = json.dumps({"eval": {}, "samples": [{"messages": messages, "events": events}]})
    used = {"model": "m", "usage": Usage(40, 30, 0, 4)}
    said = ["user:go", "assistant:bash", "tool:C", "assistant:Done."]
    assert stretches(text) == [(said, (asked(1, 2, None, **used), asked(3, 9, 6, model="n", usage=None)))]


MARK, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
BLOCKS = [{"type": "text", "text": "go", "cache_control": MARK}]


@each_row(
    "request, seconds",
    [
        ({"messages": [{"role": "user", "content": "go"}]}, None),
        ({"messages": [{"role": "user", "content": BLOCKS}]}, 300),
        ({"system": [{"type": "text", "text": "rules", "cache_control": HOUR}]}, 3_600),
        (
            {"system": [{"type": "text", "text": "rules", "cache_control": HOUR}], "messages": [{"content": BLOCKS}]},
            300,
        ),
        ({"messages": [{"content": [{"type": "tool_result", "content": BLOCKS}]}]}, 300),
        ({"messages": [{"content": BLOCKS}], "tools": [{"name": "f", "cache_control": HOUR}]}, 300),
        ({"messages": [{"content": BLOCKS}], "cache_control": HOUR}, 3_600),
        ({"prompt_cache_retention": "24h"}, 86_400),
        ({"prompt_cache_retention": "in_memory"}, None),
    ],
)
def test_the_requested_cache_life_is_read_from_inspects_requests(request: Value, seconds: float | None):
    output = {"choices": [{"message": {"id": "x"}}]}
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "id": "x", "content": "Done."}]
    events = [{"event": "model", "model": "m", "output": output, "call": {"request": request}}]
    text = json.dumps({"eval": {}, "samples": [{"messages": messages, "events": events}]})
    assert stretches(text)[0][1] == (Request(1, model="m", cache_life=seconds),)


def test_without_events_the_model_is_that_of_the_message_or_the_evaluation():
    answers = [{"role": "assistant", "content": "A.", "model": "m"}, {"role": "assistant", "content": "B."}]
    messages = [{"role": "user", "content": "go"}, answers[0], {"role": "user", "content": "and?"}, answers[1]]
    text = json.dumps({"eval": {"model": "openai/n"}, "samples": [{"messages": messages}]})
    assert stretches(text)[0][1] == (Request(1, model="m"), Request(3, model="openai/n"))


@each_row(
    "config, model",
    [
        (None, ""),
        ({"agent": {"model": {"name": "gpt-x"}}}, "gpt-x"),
        ('{"agent": {"model": {"name": "gpt-x"}}}', "gpt-x"),
        ({"agent": {"model": {"name": "replay"}}}, ""),
        ("{broken", ""),
    ],
)
def test_swe_agents_model_is_read_from_its_configuration(config: Value, model: str):
    history = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "Done."}]
    text = json.dumps({"trajectory": [], "history": history, "replay_config": config})
    assert stretches(text)[0][1] == (Request(1, model=model),)


# mini-swe-agent


def mini(*messages: Value, **config: Value) -> str:
    info = {"config": {"model": config}}
    return json.dumps({"trajectory_format": "mini-swe-agent-1.1", "info": info, "messages": messages})


def answered(**response: Value) -> Value:
    return {"role": "assistant", "content": "Done.", "extra": {"response": response}}


GO = {"role": "user", "content": "go"}
COUNTS = {"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 54}


@each_row(
    "counts, usage",
    [
        (COUNTS, Usage(50, output=4)),
        ({**COUNTS, "cost": 0.5, "prompt_tokens_details": {"cached_tokens": 30}}, Usage(50, 30, 0, 4, cost=0.5)),
        ({**COUNTS, "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 7}}, Usage(50, 30, 7, 4)),
        ({**COUNTS, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 7}, Usage(50, 30, 7, 4)),
        ({**COUNTS, "cache_read_input_tokens": 30, "total_tokens": 84}, Usage(80, 30, 0, 4)),
        ({**COUNTS, "cache_read_input_tokens": 300, "total_tokens": None}, Usage(350, 300, 0, 4)),
        (
            {**COUNTS, "prompt_tokens_details": {"cache_creation_token_details": {"ephemeral_1h_input_tokens": 9}}},
            Usage(50, 0, 9, 4, written_1h=9),
        ),
        ({"input_tokens": 50, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 30}}, Usage(50, 30, 0, 4)),
        ({**COUNTS, "cost": 10**400}, Usage(50, output=4)),
        ({"prompt_tokens": None, "prompt_tokens_details": None, "cost": 0}, None),
        (None, None),
    ],
)
def test_usage_is_read_by_the_field_names_of_every_gateway(counts: Value, usage: Usage | None):
    [(_, [request])] = stretches(mini(GO, answered(model="m", usage=counts)))
    assert request == Request(1, model="m", usage=usage)


def test_mini_swe_agent_1_is_recorded_with_the_times_and_costs_of_responses():
    look = {**answered(created=100, usage=COUNTS), "content": "```bash\nls\n```"}
    look["extra"]["cost"] = 0.25
    back = {"role": "user", "content": "<returncode>0</returncode>"}
    [(said, requests)] = stretches(mini(GO, look, back, answered(model="n", created=130), model_name="m"))
    first = Request(1, 100.0, None, "m", Usage(50, output=4, cost=0.25))
    assert (said[1:3], requests) == (
        ["assistant:```bash\nls\n```", "tool:<returncode>0</returncode>"],
        (first, Request(3, 130.0, 30.0, "n")),
    )


@each_row(
    "config, seconds",
    [
        ({"set_cache_control": "default_end"}, 300),
        ({"set_cache_control": None}, None),
        ({"model_kwargs": {"prompt_cache_retention": "24h"}}, 86_400),
    ],
)
def test_the_requested_cache_life_is_read_from_mini_swe_agents_configuration(config: Value, seconds: Value):
    assert stretches(mini(GO, answered(), **config))[0][1] == (Request(1, cache_life=seconds),)


def test_mini_swe_agents_responses_are_recorded_with_the_times_of_outputs():
    def response(seconds: float, *output: Value, **usage: Value) -> Value:
        return {"object": "response", "model": "m", "output": output, "usage": usage, "extra": {"timestamp": seconds}}

    thought = {"type": "reasoning", "summary": []}
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    back = {"type": "function_call_output", "call_id": "a", "output": "A", "extra": {"timestamp": 107.5}}
    done = {"type": "message", "role": "assistant", "content": "Done."}
    text = mini(GO, response(100.5, thought, call, call | {"call_id": "b"}, input_tokens=9), back, response(110, done))
    first = Request(1, 100.5, None, "m", Usage(9))
    assert [each for _, each in stretches(text)] == [(first, Request(3, 110.0, 7.0, "m"))]


def test_a_demonstration_of_swe_agent_is_no_request():
    history = [
        {"role": "system", "content": "rules"},
        {"role": "assistant", "content": "As I would.", "is_demo": True},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "ls", "action": "ls"},
        {"role": "user", "content": "a.py"},
    ]
    said = ["system:rules", "assistant:As I would.", "user:go", "assistant:ls", "tool:a.py"]
    assert stretches(json.dumps({"trajectory": [], "history": history})) == [(said, (Request(3),))]


# tau-bench


def test_each_conversation_of_a_file_is_recorded():
    runs = [{"traj": [{"role": "user", "content": "go"}, {"role": "assistant", "content": name}]} for name in "ab"]
    found = recordings(json.dumps(runs), "s")
    assert [[each.messages[-1]["content"] for each in conversation] for conversation in found] == [["a"], ["b"]]
    assert {each.agent for conversation in found for each in conversation} == {"tau-bench"}
