"""A strategy that knows later actions clears nothing that they need."""

from episodes import episode, in_words, reading

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.clairvoyant import clairvoyant
from autoprune.apps.replay.play import play
from autoprune.economics import LISTS


def test_results_that_are_needed_later_stay_whole():
    source = "\n".join(f"first_{at}_value = {at} # and some more words on this line" for at in range(200))
    messages = reading(source, *["short"] * 14, old_string="first_100_value = 100 # and some more words on this line")
    known = episode(messages)
    (need,) = known.evidence.needs
    assert (need.request, need.sources) == (15, (0,))
    strategy = clairvoyant(known, LISTS["anthropic"])
    run = play(known, lambda: AgenticConversationPruner(10**9), strategy, count=in_words)
    assert (run.prompts[-1].tokens, run.in_results) == (known.transcript.tokens - known.billings[-1].answer, (True,))
    assert run.violations == ()
