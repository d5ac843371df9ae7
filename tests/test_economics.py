"""Prices, what they cost and when a cut pays; the record of pauses."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune import AgenticConversationPruner, SettingsError
from autoprune.economics import CACHE_LIFE, DEFAULT, LISTS, Pauses, Prices, Tier, check_pauses, life_text, prices
from autoprune.settings.values import window_of

# Prices


@each_row(
    ("given", "expected"),
    [
        ("anthropic", (1.25, 0.1, 5)),
        ("deepseek", (1, 0.02, 4)),
        ("no-cache", (1, 1, 4)),
        ("1.25,0.1", (1.25, 0.1, 5)),
        ("1, 0.5, 4", (1, 0.5, 4)),
        ((2, 0.1), (2, 0.1, 5)),
        ((1.0, 0.25, 3.0), (1, 0.25, 3)),
        (Prices(1, 0, 2), (1, 0, 2)),
    ],
)
def test_prices_are_given_by_list_name_or_as_figures(
    given: Prices | str | tuple[float, ...], expected: tuple[float, ...]
):
    found = prices(given)
    assert (found.write, found.read, found.output) == expected
    assert found.note == ""


@each_row(
    ("given", "words"),
    [
        ("antropic", "did you mean anthropic"),
        ("1.25", "there is no price list '1.25'"),
        ("1,2,3,4", "there is no price list"),
        ("1,x", "there is no price list"),
        ("0.1,1.25", "at most as much"),
        ("-1,0.1", "give the cost in input tokens"),
        ("0.000003,0.0000003", "give the cost in input tokens, not dollars"),
        ("nan,0.1", "give the cost in input tokens"),
        ("inf,0.1", "give the cost in input tokens"),
        ("1,nan", "give the cost in input tokens"),
        ("3,0.3,15", "give the cost in input tokens, not dollars, of a token written to the cache (at most 2.5)"),
        ((1.0,), "give (write, read)"),
        ((1.0, 0.1, 5.0, 1.0), "give (write, read)"),
    ],
)
def test_impossible_prices_raise_a_clear_error(given: str | tuple[float, ...], words: str):
    with pytest.raises(SettingsError) as refusal:
        prices(given)
    assert words in str(refusal.value)


def test_a_models_prices_come_from_genai_prices():
    known = prices(None, "claude-sonnet-4-5")
    assert (known.write, known.read, known.output) == (1.25, pytest.approx(0.1), 5)
    assert (known.input_price, known.note, str(known)) == (pytest.approx(3e-6), "", "claude-sonnet-4-5")
    assert prices(None, "anthropic/claude-sonnet-4-5").read == known.read


def test_unknown_models_get_default_prices_with_a_note():
    found = prices(None, "no-such-model-9")
    assert (found.write, found.read, found.output) == (1.25, 0.1, 5)
    assert "the prices of 'no-such-model-9' are not known" in found.note
    assert prices(None) is DEFAULT
    assert DEFAULT.note


def test_without_a_write_price_writing_costs_an_input_token():
    found = prices(None, "gpt-4o")
    assert (found.write, found.read) == (1, pytest.approx(0.5))


@each_row(
    ("model", "write", "life"),
    [
        ("claude-sonnet-4-5", 1.25, 300),
        ("gpt-4o", 1, 3_600),
        ("gpt-5.6-sol", 1.25, 1_800),  # OpenAI's models that charge for writing
        ("openai/gpt-5.6-sol", 1.25, 1_800),
        ("deepseek/deepseek-chat", 1, 3_600),
        ("glm-5", 1, 1_800),
        ("gemini-3-pro-preview", 1, 1_800),
    ],
)
def test_cache_life_of_a_model_and_the_price_of_an_hour(model: str, write: float, life: float):
    known, longer = prices(None, model), prices(None, model, 43_200)
    assert (known.write, known.life) == (write, life)
    # Who charges for writing charges more for a long life: Anthropic's hour costs 2, OpenAI's 12 hours 2.5.
    dearer = 1 if write == 1 else 2 if model.startswith("claude") else 2.5
    assert (longer.write, longer.life) == (dearer, 43_200)


@each_row(
    ("model", "tiers"),
    [
        ("claude-haiku-5-5", (Tier(100_000, 5, 5),)),
        ("gpt-6.1-sol", (Tier(272_000, 2, 1.5),)),
        ("gemini-3-pro-preview", (Tier(200_000, 2, 1.5),)),
        ("claude-opus-5-5", ()),
    ],
)
def test_a_long_request_pays_the_tier_on_all_its_tokens(model: str, tiers: tuple[Tier, ...]):
    known = prices(None, model)
    assert known.tiers == tiers
    short = replace(known, tiers=())
    for above, prompt, answer in ((each.above, each.prompt, each.answer) for each in tiers):
        assert known.request(above, 50_000, 700) == short.request(above, 50_000, 700)
        longer = short.request(above + 1, 50_000)
        assert known.request(above + 1, 50_000, 700) == pytest.approx(prompt * longer + answer * known.output * 700)


@each_row(
    ("model", "like"),
    [
        ("gpt-6.2-sol", "gpt-6.1-sol"),
        ("gpt-6.1", "gpt-6.1-sol"),
        ("claude-opus-6", "claude-opus-5-5"),
        ("anthropic/claude-haiku-6-20270101", "claude-haiku-5-5"),
        ("gemini-3-pro", "gemini-3-pro-preview"),
        ("gpt-5.3-codex-spark", "gpt-5.3-codex"),
        ("gpt-6.2", "gpt-6.1-sol"),
        ("gpt-7", "gpt-6.1-sol"),
        ("gpt-6.2-codex-sol", "gpt-6.1-sol"),
        ("gpt-6", "gpt-6-astra"),
        ("gpt-7-mini", "gpt-5.4-mini"),
        ("grok-4.6-mini", "grok-4.6"),
        ("grok-5", "grok-4.7"),
        ("glm-6", "GLM-5.3"),
        ("claude", "claude-opus-5-5"),
        ("deepseek-v4", "deepseek-v4-pro"),
        ("deepseek-v5", "deepseek-v4-pro"),
        ("claude-opus-5-6", "claude-opus-5-5"),
        ("anthropic.claude-opus-6-v1", "claude-opus-5-5"),
        ("claude-fable-6@20270101", "claude-fable-5-2"),
    ],
)
def test_a_model_that_is_newer_than_the_price_list_is_priced_like_its_family(model: str, like: str):
    found, relative = prices(None, model), prices(None, like)
    assert replace(found, name="", note="") == replace(relative, name="")
    assert found.note == f"{model!r} is not in the price list: taken to be like {like}"


def test_a_short_word_is_no_family():
    assert prices(None, "m").note.startswith("the prices of 'm' are not known")


@each_row(
    ("name", "model"),
    [
        ("us.anthropic.claude-opus-5-5-20260901-v1:0", "claude-opus-5-5"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5"),
        ("zai.glm-5", "glm-5"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
        ("publishers/anthropic/models/claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("publishers/google/models/gemini-3-pro-preview", "gemini-3-pro-preview"),
        ("moonshotai/kimi-k3", "kimi-k3"),
        ("claude-haiku-5-5-20261001", "claude-haiku-5-5"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("ft:gpt-4o:org::id", "gpt-4o"),
    ],
)
def test_a_name_of_a_cloud_or_a_gateway_has_the_prices_of_its_model(name: str, model: str):
    assert replace(prices(None, name), name="") == replace(prices(None, model), name="")
    assert prices(None, model).input_price


def test_a_free_model_costs_no_dollars():
    free, listed = prices(None, "openai/gpt-5.4:free"), prices(None, "gpt-5.4")
    assert (free.input_price, free.note) == (0.0, "")
    assert (free.write, free.read, free.output) == (listed.write, listed.read, listed.output)


@each_row(
    ("name", "dollars", "seller"),
    [("amazon.nova-pro-v1:0", 0.8, "AWS Bedrock"), ("glm-4.6", 0.6, "Z.AI"), ("grok-4.6-fast", 4, "Cursor")],
)
def test_a_model_that_its_vendor_does_not_list_has_the_prices_of_a_seller(name: str, dollars: float, seller: str):
    found = prices(None, name)
    assert (found.input_price, found.note) == (pytest.approx(dollars / 1e6), f"{name!r} has the prices of {seller}")


@each_row(
    ("name", "plain", "times"),
    [
        ("claude-opus-4-8-fast", "claude-opus-4-8", 2),
        ("claude-opus-4-6-fast", "claude-opus-4-6", 6),
        ("anthropic/claude-opus-4.8-fast", "claude-opus-4-8", 2),
        ("claude-opus-4-6-20260101-fast", "claude-opus-4-6", 6),
        ("claude-haiku-4-5-fast", "claude-haiku-4-5", 1),  # no such price is listed
    ],
)
def test_a_model_in_fast_mode_costs_a_multiple_and_has_the_window_of_the_model(name: str, plain: str, times: int):
    fast, slow = prices(None, name), prices(None, plain)
    assert fast.input_price == pytest.approx(times * (slow.input_price or 0))
    assert (fast.write, fast.read, fast.output) == (slow.write, slow.read, slow.output)
    assert window_of(name) == window_of(plain)


def test_a_model_that_is_named_fast_by_its_vendor_is_no_other_model():
    assert (prices(None, "grok-4-fast").note, window_of("grok-4-fast")) == ("", 2_000_000)
    assert prices(None, "grok-4.1-fast").input_price


def test_an_unlisted_price_of_fast_mode_is_said():
    note = "no price of fast mode is listed for 'claude-haiku-4-5-fast': it has those of claude-haiku-4-5"
    assert prices(None, "claude-haiku-4-5-fast").note == note


@each_row(
    ("seconds", "words"),
    [
        *((300, "5 min"), (3_600, "1 h"), (86_400, "24 h"), (90, "90 s"), (0.5, "0.5 s"), (0, "0 s")),
        *((1_982.93, "33 min"), (3_599.6, "1 h"), (90.4, "90 s"), (math.inf, "inf s")),
    ],
)
def test_a_cache_life_is_formatted_in_its_largest_unit(seconds: float, words: str):
    assert life_text(seconds) == words


@each_row(
    ("prices", "cleared", "behind", "requests"),
    [
        (LISTS["anthropic"], 1_000, 10_000, 115),
        (LISTS["openai-0.5"], 500, 500, 1),
        (LISTS["anthropic"], 1_000, 0, 0),
        (LISTS["no-cache"], 1_000, 10_000, 0),
        (LISTS["anthropic"], 0, 10_000, math.inf),
        (Prices(1, 0), 1_000, 10_000, math.inf),
        (Prices(1, 0), 1_000, 0, 0),
    ],
)
def test_break_even_in_requests(prices: Prices, cleared: float, behind: float, requests: float):
    assert prices.break_even(cleared, behind) == pytest.approx(requests)


@given(
    *(st.floats(0.01, 1.5), st.floats(0, 1), st.floats(0, 20)),
    *(st.integers(0, 10**6), st.floats(0, 1), st.integers(0, 10**4)),
)
@examples(80)
def test_a_request_costs_reads_writes_and_its_answer(
    more: float, read: float, output: float, prompt: int, share: float, answer: int
):
    held = int(prompt * share)
    found = Prices(read + more, read, output).request(prompt, held, answer)
    assert found == pytest.approx(read * held + (read + more) * (prompt - held) + output * answer)
    assert Prices(1, 1, 0).request(prompt, held) == prompt


# Pauses


def test_a_pause_is_recorded_under_the_index_of_the_next_message():
    times = iter((100.0, 130.0, 530.0))
    record = Pauses(clock=lambda: next(times))
    messages: list[object] = ["user"]
    assert record.before(messages) == {}
    messages += ["answer", "result"]
    assert record.before(messages) == {3: 30.0}
    messages += ["answer", "result"]
    assert record.before(messages) == {3: 30.0, 5: 400.0}


def test_a_retried_request_keeps_its_pause():
    times = iter((100.0, 500.0, 505.0))
    record = Pauses(clock=lambda: next(times))
    record.before(["user"])
    assert record.before(["user", "answer", "result"]) == {3: 400.0}
    assert record.before(["user", "answer", "result"]) == {3: 400.0}


def test_pauses_are_forgotten_when_messages_were_removed():
    times = iter((100.0, 500.0, 530.0, 540.0))
    record = Pauses(clock=lambda: next(times))
    record.before(["user"])
    assert record.before(["message"] * 9) == {9: 400.0}
    assert record.before(["message"] * 5) == {5: 30.0}
    assert record.before(["message"] * 9) == {5: 30.0, 9: 10.0}


def test_pauses_survive_a_round_trip_through_json():
    record = Pauses(clock=lambda: 10.0)
    record.before(["user"])
    stored = json.loads(json.dumps(record.to_dict()))
    again = Pauses.from_dict(stored, clock=lambda: 400.0)
    assert again.before(["user", "answer", "result"]) == {3: 390.0}
    assert Pauses.from_dict(json.loads(json.dumps(again.to_dict()))).to_dict() == again.to_dict()
    with pytest.raises(SettingsError, match="the record of pauses has no 'pauses': give all that to_dict"):
        Pauses.from_dict({})
    with pytest.raises(SettingsError, match=r"the record of pauses is None: give what to_dict\(\) returned"):
        Pauses.from_dict(None)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="messages is None: give the list"):
        Pauses().before(None)  # type: ignore[arg-type]


@each_row(
    "pauses",
    [
        {3: -1.0},
        {3: math.nan},
        {3: math.inf},
        {3: "5"},
        {"3": 5.0},
        {3.0: 5.0},
        {-1: 5.0},
        {3: math.nan},
        {True: 5.0},
        {3: True},
        [3, 5.0],
        5,
    ],
)
def test_impossible_pauses_raise_a_clear_error(pauses: object):
    for use in (check_pauses, Pauses, lambda given: AgenticConversationPruner(1_000).prune([], pauses=given)):
        with pytest.raises(SettingsError, match="by the index of a message"):
            use(pauses)  # type: ignore[operator]


def test_the_price_of_a_million_tokens_is_not_that_of_one():
    with pytest.raises(SettingsError, match="input_price is 3: give dollars for one token, such as 3e-6"):
        Prices(1.25, 0.1, 5, input_price=3)


def test_pauses_of_none_are_empty():
    assert check_pauses(None) == check_pauses({}) == {}
    assert check_pauses({0: 0, 5: CACHE_LIFE}) == {0: 0, 5: CACHE_LIFE}


def test_a_model_that_is_not_a_string_raises():
    with pytest.raises(SettingsError, match="the model is 5: give its name"):
        prices(None, 5)  # type: ignore[arg-type]
