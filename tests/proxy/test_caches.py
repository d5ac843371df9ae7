"""The life of a provider's cache: what requests ask for, what answers report, and which of both holds."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import pytest
from proxy.conftest import eventually, messages
from strict_provider.scripts import Turn
from strict_provider.server import Provider, serve

from autoprune import AgenticConversationPruner
from autoprune.apps.proxy import ClientSession, Running, Settings, running
from autoprune.apps.proxy._conversations import Cache, Prompt, Reads, TrackedConversation, cache_writes
from autoprune.apps.proxy._pruning import Account, Job, Outcome, Work
from autoprune.economics import model_prices
from autoprune.errors import SettingsError
from autoprune.pruners.requests import place, requested_life

SHORT, HOUR = 300.0, 3_600.0
MODEL = "claude-opus-4-8"


def mark(ttl: object = None) -> dict[str, Any]:
    return {"cache_control": {"type": "ephemeral"} | ({} if ttl is None else {"ttl": ttl})}


def said(text: str, ttl: object = None, *, is_marked: bool = True) -> dict[str, Any]:
    block = {"type": "text", "text": text}
    return {"role": "user", "content": [block | mark(ttl) if is_marked else block]}


PLAIN = said("Go on.", is_marked=False)
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "a"} | mark("1h")]}
POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}


@pytest.mark.parametrize(
    ("path", "body", "life"),
    [
        ("/v1/messages", {"messages": [PLAIN]}, None),
        ("/v1/messages", {"messages": [said("a")]}, None),
        ("/v1/messages", {"messages": [said("a", "1h")]}, HOUR),
        ("/v1/messages", {"messages": [{"role": "user", "content": [RESULT]}]}, HOUR),
        # That of most messages counts, and that of the system prompt where none is marked.
        ("/v1/messages", {"messages": [PLAIN, PLAIN, said("a", "1h"), said("b", "5m")]}, HOUR),
        ("/v1/messages", {"messages": [said("a", "1h"), PLAIN, PLAIN, said("b", "5m")]}, SHORT),
        ("/v1/messages", {"messages": [said("a", "1h"), PLAIN, PLAIN], **mark()}, None),
        ("/v1/messages", {"messages": [PLAIN], **mark("1h")}, HOUR),
        ("/v1/messages", {"messages": [PLAIN], "system": [said("a", "1h")["content"][0]]}, HOUR),
        ("/v1/messages", {"messages": [said("a", "5m")], "system": [said("a", "1h")["content"][0]]}, SHORT),
        ("/v1/messages", {"messages": [said("a", "2 weeks")]}, None),
        ("/v1/messages", {"messages": [said("a", "0s")]}, None),
        ("/v1/messages", {"messages": [said("a", [1])]}, None),
        ("/v1/messages", {"messages": [{"role": "user", "content": [{"cache_control": "1h"}, 5]}, 7]}, None),
        ("/model/m/converse", {"messages": [{"role": "user", "content": [{"text": "a"}, POINT]}]}, HOUR),
        ("/v1/chat/completions", {"messages": [said("a", "1h")]}, HOUR),  # a gateway to Anthropic
        ("/v1/chat/completions", {"messages": [PLAIN], "prompt_cache_retention": "24h"}, 86_400.0),
        ("/v1/responses", {"input": [PLAIN], "prompt_cache_retention": "in_memory"}, None),
        ("/v1/responses", {"input": [PLAIN], "prompt_cache_options": {"ttl": "30m"}}, 1_800.0),
        ("/v1beta/models/gemini-3-pro:generateContent", {"contents": [{"parts": [{"text": "a"}]}]}, None),
    ],
)
def test_the_life_that_a_request_asks_for(path: str, body: dict[str, Any], life: float | None):
    found = place(path, body)
    assert found
    assert requested_life(found, body, charges_writes=False) == life


def test_models_that_charge_for_writes_ignore_the_retention_option():
    body = {"input": [PLAIN], "prompt_cache_retention": "24h"}
    found = place("/v1/responses", body)
    assert found
    assert requested_life(found, body, charges_writes=True) is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 900}},
            {300: 40, 3_600: 900},
        ),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": "9"}}, {}),
        ({"prompt_tokens_details": {"cache_creation_token_details": {"ephemeral_1h_input_tokens": 7}}}, {3_600: 7}),
        ({"input_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 7}}}, {43_200: 7}),
        ({"cacheDetails": [{"ttl": "1h", "inputTokens": 7}, {"ttl": "5m", "inputTokens": 2}]}, {3_600: 7, 300: 2}),
        ({"cacheDetails": [{"ttl": "soon", "inputTokens": 7}]}, {}),
        ({"input_tokens": 7, "cache_creation": None}, {}),
        ({"cache_creation": {"ephemeral_5m_input_tokens": True, "ephemeral_1h_input_tokens": -9}}, {}),
        # No provider has such a life.
        ({"cache_creation": {"ephemeral_0s_input_tokens": 9, "ephemeral_999999h_input_tokens": 9}}, {}),
        ([[[[[{"ephemeral_1h_input_tokens": 7}]]]]], {}),
        ("ephemeral_1h_input_tokens", {}),
    ],
)
def test_cache_writes_are_read_from_each_providers_usage(usage: object, tokens: dict[float, int]):
    assert cache_writes(usage) == tokens


def wrote(**tokens: int) -> dict[str, Any]:
    """The usage of an answer that wrote tokens to the cache for five minutes (`m5`) and for an hour (`h1`)."""
    named = {"ephemeral_5m_input_tokens": tokens.get("m5", 0), "ephemeral_1h_input_tokens": tokens.get("h1", 0)}
    return {"cache_creation": named}


def test_answers_take_precedence_over_requests_and_requests_over_the_usual_life():
    cache = Cache()
    cache.note_request(None)
    assert (cache.life, cache.unusual_source) == (SHORT, "")
    cache.note_request(HOUR)
    assert (cache.life, cache.unusual_source) == (HOUR, "as requested")
    cache.learn_life(wrote(m5=9_000), HOUR)
    cache.note_request(HOUR)
    assert (cache.life, cache.unusual_source) == (SHORT, "")
    cache.learn_life(wrote(h1=9_000), HOUR)
    cache.note_request(HOUR)
    assert (cache.life, cache.unusual_source) == (HOUR, "as reported in answers")


def test_settings_take_precedence_over_everything():
    cache = Cache(given=600.0)
    cache.learn_life(wrote(h1=9_000), None)
    cache.note_request(HOUR)
    assert (cache.life, cache.unusual_source) == (600, "from the settings")


def test_a_side_question_with_a_short_cache_does_not_make_the_conversation_cold():
    cache = Cache()
    for _ in range(2):
        cache.note_request(HOUR)
        cache.learn_life(wrote(h1=900), HOUR)
    cache.note_request(None)
    cache.learn_life(wrote(m5=50), None)
    cache.note_request(HOUR)
    assert cache.life == HOUR
    for _ in range(2):  # and from here on the client asks for a short one
        cache.note_request(None)
    assert cache.life == SHORT


# In a lane


@dataclass
class Lane:
    """Prunes one growing conversation, at times that the test sets."""

    strategy: str = "cache_aware(threshold=1000,patience=1000000,stay=0,start_at=0,never_dearer=None)"
    system: str = ""
    work: Work = field(init=False)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.work = Work(Settings(safe_zone="100k", strategy=self.strategy))

    def ask(self, results: int, pause: float, ttl: str | None = None) -> tuple[Outcome, Account, list[Any]]:
        """Prune a conversation with this many results; return the outcome, its account, and the messages sent."""
        self.now += pause
        given = messages(results)
        if ttl:
            given[-1] = given[-1] | {"content": marked(given[-1]["content"], ttl)}
        known = json.dumps({"model": MODEL, "system": self.system, "messages": given}).encode()
        done = self.work.prune(Job("/v1/messages", {}, known, "s", self.now))
        account = self.work.account(done.number)
        assert account, done.note
        return done, account, json.loads(done.body)["messages"] if done.body else given


def marked(content: Any, ttl: str) -> list[Any]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [*blocks[:-1], blocks[-1] | mark(ttl)]


def cleared(sent: list[Any]) -> set[int]:
    """The indexes of messages in which a result was cleared."""
    results = ((at, each["content"][0]) for at, each in enumerate(sent) if at and each["role"] == "user")
    return {at for at, result in results if "[Cleared at" in str(result["content"])}


def read(usage: Account, share: float) -> dict[str, int]:
    """The usage of an answer to a prompt of which this share was read from the cache."""
    cached = round(usage.sent.tokens * share)
    return {"input_tokens": usage.sent.tokens - cached, "cache_read_input_tokens": cached}


KEEPING = "cache_aware(stay=1000)"  # clears nothing here


def lives(lane: Lane, answers: list[tuple[float, float]], ttl: str | None = None) -> list[float]:
    """The life that is assumed for each request, and for one after the last, given its pause and the share read."""
    found = []
    for results, (pause, share) in enumerate([*answers, (5.0, 0.0)], 10):
        done, account, _ = lane.ask(results, pause, ttl)
        lane.work.learn(done.conversation, read(account, share), done.number)
        found.append(account.prices.life)
    return found


@pytest.mark.parametrize(
    ("ttl", "answers", "life"),
    [
        (None, [(0.0, 0.0), (5.0, 1.0), (200.0, 1.0)], SHORT),
        (None, [(0.0, 0.0), (400.0, 0.9)], 400.0),  # one prompt that was read after a longer pause is enough
        (None, [(0.0, 0.0), (400.0, 0.2)], SHORT),
        ("1h", [(0.0, 0.0), (5.0, 1.0), (700.0, 0.2), (900.0, 0.0), (800.0, 0.0)], SHORT),
        ("1h", [(0.0, 0.0), (5.0, 1.0), (700.0, 0.2), (900.0, 0.0)], HOUR),  # two misses may be evictions
        ("1h", [(0.0, 0.0), (700.0, 0.0), (900.0, 0.0), (1_000.0, 1.0), (800.0, 0.0)], HOUR),
        ("1h", [(0.0, 0.0), (400.0, 1.0), (700.0, 0.0), (900.0, 0.0), (800.0, 0.0)], 400.0),
        (None, [(0.0, 0.0), (5.0, 0.0), (8.0, 0.0), (5.0, 0.0)], 0.0),  # nothing is cached at all
        (None, [(0.0, 0.0), (2.0, 1.0), (5.0, 0.0), (8.0, 0.0), (5.0, 0.0)], SHORT),
        (None, [(0.0, 0.0), (5.0, 0.0), (8.0, 0.0), (5.0, 0.0), (3.0, 0.9)], SHORT),
    ],
)
def test_what_answers_read_from_the_cache_corrects_its_life(
    ttl: str | None, answers: list[tuple[float, float]], life: float
):
    assert lives(Lane(KEEPING), answers, ttl)[-1] == life


def test_a_corrected_life_holds_for_other_conversations_with_the_model_at_the_same_upstream():
    lane = Lane(KEEPING)
    lives(lane, [(0.0, 0.0), (400.0, 1.0)])
    found = []
    for model, upstream in ((MODEL, ""), (MODEL, "gateway.example"), ("claude-sonnet-4-5", "")):
        known = json.dumps({"model": model, "messages": messages(3, tag=" b")}).encode()
        done = lane.work.prune(Job("/v1/messages", {}, known, "other", lane.now, upstream=upstream))
        account = lane.work.account(done.number)
        assert account
        found.append((account.prices.life, account.life_from))
    assert found == [(400.0, "as cache reads show"), (SHORT, ""), (SHORT, "")]


@pytest.mark.parametrize(("cached", "warm"), [(20_000, 5.0), (27_000, 7_200.0)])
def test_reading_the_system_prompt_that_others_share_does_not_show_that_the_conversation_was_warm(
    cached: int, warm: float
):
    known, now = TrackedConversation("a"), 0.0
    for number, (pause, hit) in enumerate([(0.0, 0), (5.0, 30_000), (7_200.0, cached)], 1):
        now += pause
        known.note_request(2 * number, now)
        known.note_prompt(number, Prompt(known.past, 2 * number, 30_000, None, beside=20_000), is_edited=False)
        known.learn({"input_tokens": 30_000 - hit, "cache_read_input_tokens": hit}, number)
    assert known.cache.reads == Reads(warm=warm)


def test_misses_say_nothing_if_clearing_is_their_cause_or_reads_are_not_counted():
    lane = Lane()
    lane.work = Work(Settings(safe_zone="11k", strategy="tool_output_cleanup"))
    assert set(lives(lane, [(0.0, 0.0), *[(5.0, 0.0)] * 6])) == {SHORT}
    lane = Lane()
    for results in range(10, 18):
        done, account, _ = lane.ask(results, 5.0)
        lane.work.learn(done.conversation, {"input_tokens": account.sent.tokens}, done.number)
    assert account.prices.life == SHORT


@pytest.mark.parametrize("is_cut", [True, False])
def test_going_back_behind_a_cut_is_cold_as_its_prompt_was_last_sent_before_the_cut(is_cut: bool):
    lane = Lane()
    pauses = {9: 0.0, 10: 2 * SHORT if is_cut else 5.0, 11: 5.0, 12: 5.0}
    sent = [lane.ask(results, pause)[2] for results, pause in pauses.items()]
    assert bool(cleared(sent[-1])) == is_cut
    _, back, again = lane.ask(9, 5.0)
    assert (back.is_cold, back.pause) == (is_cut, is_cut * (5.0 + sum(pauses.values())))
    assert bool(cleared(again)) == is_cut


def test_an_environment_variable_sets_the_cache_life(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AUTOPRUNE_CACHE_TTL", "2h")
    lane = Lane()
    for results, pause in ((7, 0.0), (8, 7_000.0)):
        _, account, sent = lane.ask(results, pause, "5m")
    assert (account.prices.life, account.life_from, cleared(sent)) == (7_200, "from the settings", set())
    assert cleared(lane.ask(9, 7_300.0, "5m")[2])


def test_a_setting_of_the_proxy_sets_the_cache_life():
    lane = Lane()
    lane.work = Work(Settings(safe_zone="100k", cache_ttl="2h"))
    _, account, _ = lane.ask(7, 0.0, "5m")
    assert (account.prices.life, account.life_from) == (7_200, "from the settings")
    with pytest.raises(SettingsError, match="cache_ttl is 'soon'"):
        Settings(cache_ttl="soon")


@pytest.mark.parametrize("stores", [True, False], ids=["forgets everything", "never stores"])
def test_no_request_makes_a_conversation_dearer_whatever_the_cache_holds(stores: bool):
    """The invoices add up to at most the bill of the unpruned requests with the same cache, and results are cleared."""
    lane = Lane("cache_aware(threshold=1000,patience=1,stay=0,start_at=0)", system="Mend what is broken. " * 2_000)
    prices, count = model_prices(MODEL), AgenticConversationPruner(1).count_tokens
    head, ours, unpruned = 10_000, 0.0, 0.0
    before: list[Any] = []
    for results in range(1, 50):
        done, _, sent = lane.ask(results, 400.0 if results % 20 == 0 else 5.0)
        is_lost = not (stores and before) or results % 3 == 0 or results % 20 == 0
        pairs = enumerate(zip(sent, before, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), len(before))
        size, whole = head + count(sent), head + count(messages(results))
        held, whole_held = (
            0 if is_lost else head + count(each[:end]) if end else head
            for each, end in ((sent, same), (messages(results), len(before)))
        )
        usage = {"input_tokens": 0 if stores else size, "cache_read_input_tokens": held}
        usage |= {"cache_creation_input_tokens": size - held if stores else 0}
        lane.work.learn(done.conversation, usage, done.number)
        ours += prices.request(size, held) if stores else size
        unpruned += prices.request(whole, whole_held) if stores else whole
        assert ours <= unpruned * 1.0000001
        before = sent
    assert cleared(sent)
    assert ours < 0.9 * unpruned


# Through the proxy, with a real client and a provider that keeps caches as they are asked for


class Clock:
    """A clock that the test sets, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Agent:
    """An Anthropic client that sends a growing conversation through a proxy, with a cache mark on the last message."""

    client: anthropic.Anthropic
    proxy: Running
    clock: Clock
    tag: str
    ttl: str | None
    session: str = "claude"
    results: int = 0
    name: str = ""

    def ask(self, pause: float = 5.0) -> Any:
        self.clock.now += pause
        self.results += 1
        known = messages(self.results, tag=self.tag)
        known[-1] = known[-1] | {
            "content": marked(known[-1]["content"], self.ttl) if self.ttl else known[-1]["content"]
        }
        noted, names = sum(each.requests for each in self.proxy.sessions), {each.name for each in self.proxy.sessions}
        headers = {"x-claude-code-session-id": self.session}
        answer = self.client.messages.create(
            model=MODEL, max_tokens=100, messages=known, extra_headers=headers, tools=TOOLS
        )
        eventually(lambda: sum(each.requests for each in self.proxy.sessions) > noted)
        self.name = self.name or next(each.name for each in self.proxy.sessions if each.name not in names)
        return answer

    @property
    def conversation(self) -> ClientSession:
        return next(each for each in self.proxy.sessions if each.name == self.name)


TOOLS: list[Any] = [{"name": "read", "input_schema": {"type": "object"}}]
PATIENT = {"safe_zone": "100k", "strategy": Lane.strategy}


@pytest.fixture
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with serve([Turn("Go on.")], keeps=getattr(request, "param", "")) as known:
        yield known


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def proxy(provider: Provider, clock: Clock) -> Iterator[Running]:
    with running(Settings(provider.url, **PATIENT), clock) as known:
        yield known


@pytest.fixture
def client(proxy: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=proxy.url, api_key="none", max_retries=0) as known:
        yield known


def test_a_conversation_and_its_subagent_have_separate_caches(
    client: anthropic.Anthropic, proxy: Running, clock: Clock, provider: Provider
):
    main, helper = (Agent(client, proxy, clock, tag, ttl) for tag, ttl in ((" main", "1h"), (" helper", "5m")))
    for _ in range(6):
        usage = main.ask().usage.cache_creation
        assert (usage.ephemeral_1h_input_tokens > 0, usage.ephemeral_5m_input_tokens) == (True, 0)
    for _ in range(5):
        helper.ask()
    main.ask(pause=1_000.0)
    helper.ask(pause=1.0)
    helper.ask(pause=1_000.0)
    assert provider.refusals == []
    of_main, of_helper = main.conversation, helper.conversation
    assert (of_main.ledger.prices.write, of_main.ledger.prices.life) == (2.0, HOUR)
    assert (of_helper.ledger.prices.write, of_helper.ledger.prices.life) == (1.25, SHORT)
    assert (of_main.life_from, of_helper.life_from) == ("as reported in answers", "")
    assert ([each.is_cold for each in of_main.points], of_main.cleared) == ([False] * 7, [])
    assert [each.is_cold for each in of_helper.points] == [*[False] * 5, True, True]
    assert of_helper.ledger.cold.net == of_helper.ledger.total.net > 0
    assert of_main.ledger.cold.net == 0


@pytest.mark.parametrize("provider", ["5m"], indirect=True)
def test_a_gateways_shorter_life_replaces_the_requested_one(client: anthropic.Anthropic, proxy: Running, clock: Clock):
    agent = Agent(client, proxy, clock, "", "1h")
    agent.ask()
    assert agent.conversation.ledger.prices.life == HOUR
    eventually(lambda: agent.conversation.usage)
    for _ in range(6):
        agent.ask()
    agent.ask(pause=400.0)
    assert agent.conversation.points[-1].is_cold
    assert agent.conversation.cleared
    assert (agent.conversation.ledger.prices.life, agent.conversation.life_from) == (SHORT, "")


@pytest.mark.parametrize("provider", ["1h"], indirect=True)
def test_the_life_is_also_read_from_a_stream(client: anthropic.Anthropic, proxy: Running, clock: Clock):
    known = [said("Go on. " * 2_000)]
    for _ in range(3):  # the worker may learn from an answer after the next request
        with client.messages.stream(model=MODEL, max_tokens=100, messages=known) as stream:
            stream.until_done()
        eventually(lambda: proxy.sessions[0].usage)
        known = [*known, {"role": "assistant", "content": "Yes."}, said("And now? " * 2_000)]
    (session,) = proxy.sessions
    assert (session.requests, session.ledger.prices.life, session.life_from) == (3, HOUR, "as reported in answers")


def test_a_conversation_without_marks_turns_out_to_have_no_cache(
    client: anthropic.Anthropic, proxy: Running, clock: Clock
):
    agent = Agent(client, proxy, clock, "", None, results=10)
    lives = []
    for _ in range(5):
        agent.ask()
        eventually(lambda: agent.conversation.usage)
        lives.append(agent.conversation.ledger.prices.life)
    assert (lives, agent.conversation.life_from) == ([SHORT] * 4 + [0.0], "as cache reads show")
