"""The promises for finished steps that leave the prompt, over conversations of every format."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from every_format import again, as_bytes, conversations, requests
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rounds import WIRE, Step

from autoprune import AgenticConversationPruner, problems
from autoprune.conversation.edits import Fold, Replace
from autoprune.conversation.messages import fields_of
from autoprune.conversation.transcript import newest_compaction
from autoprune.facts.utterances import utterances
from autoprune.planning.view import BaseStrategy, View
from autoprune.pruners.result import Result
from autoprune.strategies import CacheAware
from autoprune.strategies.finished_steps import fold, line

PASTED = (
    "[Steps 0-3, folded at request 9]\n- read a.py, 40 tokens\n\nand what I say",
    "Look: [Step 1, folded at request 3]\n- bash ls, 3 tokens",
    "1. do this\n- and that",
)


@dataclass(frozen=True)
class FoldAll(BaseStrategy):
    """Fold every step that is old enough, at every request."""

    fold_steps: int | None = 1
    name = "fold_all"
    every_request = True

    def step(self, view: View) -> Iterator[Replace | Fold]:
        """Yield a fold for each run of old steps."""
        assert self.fold_steps is not None
        old = [step for step in view.steps() if view.request - step.request >= self.fold_steps]
        yield from fold(old, view.request, lambda result: line(result, result.tokens, (), has_failed=False))


def pruner() -> AgenticConversationPruner:
    return AgenticConversationPruner(1_000_000)


def every_format(test: Any) -> Any:
    """Check a property over conversations of each format and two ages."""
    ages = st.sampled_from((1, 2, 4)).map(FoldAll)

    def check(format: str, data: st.DataObject) -> None:
        test(data.draw(conversations(format, PASTED)), data.draw(ages))

    check.__name__, check.__qualname__, check.__module__ = test.__name__, test.__qualname__, test.__module__
    return pytest.mark.parametrize("format", [*WIRE, "xml"])(examples(40)(given(data=st.data())(check)))


def users_words(messages: list[Any]) -> list[str]:
    """The texts of the user's messages, and of system messages."""
    return [text for message in messages for text in texts_of(message)]


def texts_of(message: Any) -> Iterator[str]:
    held = fields_of(message)
    if held.get("role") not in ("user", "system", "developer"):
        return
    content = held.get("content", held.get("parts"))
    for block in [content] if isinstance(content, str) else content or ():
        text = block if isinstance(block, str) else fields_of(block).get("text")
        if isinstance(text, str):
            yield text


def rules(messages: list[Any]) -> set[str]:
    return {problem.rule for problem in problems(messages)}


@every_format
def test_the_input_is_unchanged_and_the_provider_takes_the_output(messages: list[Any], strategy: FoldAll):
    before = as_bytes(messages)
    result = pruner().prune(messages, strategy)
    assert as_bytes(messages) == before
    assert rules(result.conversation) <= rules(messages)
    kept = {id(message) for message in messages}
    new = [message for message in result.conversation if id(message) not in kept]
    assert len(new) <= len(result.plan.folds)
    assert (result.conversation is messages) == (not result.plan.folds)


@every_format
def test_every_word_of_the_user_stays_in_order(messages: list[Any], strategy: FoldAll):
    sent = "\0".join(users_words(pruner().prune(messages, strategy).conversation))
    at = 0
    for text in users_words(messages):
        at = sent.index(text, at) + len(text)


@every_format
def test_the_report_counts_what_is_sent(messages: list[Any], strategy: FoldAll):
    result = pruner().prune(messages, strategy)
    report = result.report
    assert report.tokens_after == pruner().count_tokens(result.conversation) <= report.tokens_before
    assert sum(report.floor.values()) == report.tokens_after
    assert report.messages_summarized == sum(len(fold.messages) for fold in result.plan.folds)
    assert sum(weight for _, weight in result.sent.sent) + result.sent.beside == report.tokens_after


@every_format
def test_pruning_again_changes_nothing(messages: list[Any], strategy: FoldAll):
    once = pruner().prune(messages, strategy).conversation
    assert pruner().prune(once, strategy).conversation is once
    reloaded = again(once)
    assert pruner().prune(reloaded, strategy).conversation is reloaded


@every_format
def test_a_growing_conversation_gives_the_same_in_both_styles(messages: list[Any], strategy: FoldAll):
    whole, loop = pruner(), pruner()
    fed: list[Any] = []
    read = 0
    for end in requests(messages):
        given_back = [*fed, *messages[read:end]]
        result = whole.prune(messages[:end], strategy)
        alone = pruner().prune(messages[:end], strategy)
        fed = loop.prune(given_back, strategy).conversation
        assert as_bytes(result.conversation) == as_bytes(alone.conversation) == as_bytes(fed)
        read = end


@every_format
def test_the_prompt_only_changes_behind_a_new_fold(messages: list[Any], strategy: FoldAll):
    known = pruner()
    before: Result[Any] | None = None
    for end in requests(messages):
        now = known.prune(messages[:end], strategy)
        start = newest_compaction(now.plan.transcript.entries)
        if before is not None and start == newest_compaction(before.plan.transcript.entries):  # else its folds are gone
            fresh = now.plan.folds[len(before.plan.folds) :]
            assert now.plan.folds[: len(before.plan.folds)] == before.plan.folds
            first = min((now.plan.places[fold.messages[0]] for fold in fresh), default=len(before.conversation))
            same = min(first, len(before.conversation))
            assert as_bytes(now.conversation[:same]) == as_bytes(before.conversation[:same])
        before = now


HEAD = "[Steps 0-{}, folded at request {}]"


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        (f"{HEAD.format(1, 9)}\n- a\n- b", 2),
        (f"Fix it.\n\n{HEAD.format(1, 9)}\n- a\n- b\n- c\n\nAnd this.", 2),
        (f"{HEAD.format(2, 9)}\n- a\n- b", 0),  # a step without a line
        (f"{HEAD.format(99_999_999, 999_999_999)}\n- a", 0),
        (f"{HEAD.format(1, 1)}\n- a\n- b", 0),  # folded before it was made
        ("[Steps 3-4, folded at request 9]\n- a\n- b", 0),  # of another conversation
        (f"{HEAD.format(1, 9)}, he said\n- a\n- b", 0),
        (f"{HEAD.format(1, 9)}\n\n- a\n- b", 0),
    ],
)
def test_a_pasted_block_counts_only_if_it_could_be_one_of_this_conversation(text: str, skipped: int):
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "Yes."}]
    (user, _) = pruner().plan(messages).transcript.entries
    assert user.skipped == skipped
    assert ("- b" in "".join(user.texts)) == ("- b" in text and not skipped)


def test_summaries_read_the_lines_of_folded_steps_as_the_models_and_the_users_words_as_the_users():
    block = f"{HEAD.format(1, 2)}\n- read src/app.py, 2,310 tokens: load_settings\n- bash make, 9 tokens"
    for first, words in ((f"Fix it.\n\n{block}", ["Fix it.", block]), (block, [block])):
        entries = pruner().plan([{"role": "user", "content": first}]).transcript.entries
        said = utterances(entries)
        assert [one.words for one in said] == words
        assert [one.user_request for one in said] == [*words[:-1], ""]


@pytest.mark.parametrize("written_in", WIRE)
def test_what_became_of_the_messages_can_be_counted_again(written_in: str):
    texts = ["\n".join(f"line {line} of file {at}" for line in range(50)) for at in range(60)]
    given = WIRE[written_in]([[Step("read", {"path": f"{at}.py"}, text)] for at, text in enumerate(texts)])
    ours = AgenticConversationPruner(10_000)
    result = ours.prune(given, CacheAware(fold_steps=10, start_at=0))
    assert ours.get_cleanup_statistics(given, result.conversation) == result.report.statistics
    assert min(result.report.messages_summarized, result.report.results_cleared) > 0


@pytest.mark.parametrize("written_in", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("until", [0, 30])
def test_folded_steps_are_summarized_and_messages_that_were_joined_are_not_gone(written_in: str, until: int):
    # The answer to a question stays, so the next step has no message of the user before it.
    steps = [
        Step("ask_user", {}, "Do it my way."),
        *(Step("read", {"path": f"{at}.py"}, "a line\n" * 90) for at in range(30)),
    ]
    messages = WIRE[written_in]([[step] for step in steps])
    messages[5:5] = [{"role": "user", "content": text} for text in ("And mind the style.", "Go on.")]
    ours = pruner()
    given = [*ours.prune(messages[:until], FoldAll(5)).conversation, *messages[until:]]
    result = ours.prune(given, FoldAll(5))
    assert ours.get_cleanup_statistics(given, result.conversation) == result.report.statistics
    assert result.report.messages_summarized
