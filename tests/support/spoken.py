"""Conversations in which it matters who says what: requests, answers through tools, rejected plans, what was answered.

Each thing that is said has a name of its own, such as "REQUEST3", by which it is found again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from rounds import WIRE, Round, Step, Words
from rounds_hypothesis import LOG, REASONS
from rounds_in_texts import CARRIERS, in_text

RULE = "RULE: keep Python 3.8, and never push."
FORMATS = (*WIRE, "xml")


@dataclass(frozen=True)
class Turn:
    """A request, what the model does and says of it, and what the user says through tools meanwhile."""

    request: str
    work: tuple[Round, ...]
    chatter: str
    answer: str = ""  # "" if the model was interrupted
    said: tuple[str, ...] = ()  # through tools


def asked(words: str) -> Step:
    """A question to the user, and the answer."""
    answered = f'User has answered your questions: "Which one?"="{words}".'
    return Step("AskUserQuestion", {"question": "Which one?"}, answered)


def rejected(reason: str, words: str) -> Step:
    """A plan that the user rejects with some words."""
    return Step("ExitPlanMode", {"plan": "Rewrite all of it."}, f"{reason}{words}", failed=True)


def reads(number: int, lines: int) -> list[Round]:
    """Some calls, one after the other."""
    return [[Step("read_file", {"path": f"{at}.py"}, f"line {at} of a file\n" * lines)] for at in range(number)]


@st.composite
def turns(draw: st.DrawFn, number: int) -> Turn:
    """One turn; `number` makes its words its own."""
    behind = draw(
        st.sampled_from(("", "", f" {RULE}", f" This is the log:\n{LOG}", "\n\n## Next (2 lines)\n- test it"))
    )
    said: list[str] = []
    work: list[Round] = []
    for at in range(draw(st.integers(0, 3))):
        words = f"SAID{number}.{at}: sqlite only, no redis"
        kind = draw(st.sampled_from(("reads", "reads", "asked", "rejected")))
        if kind == "reads":
            work += reads(draw(st.integers(1, 6)), draw(st.sampled_from((2, 30, 80))))
            continue
        said.append(words)
        work.append([asked(words) if kind == "asked" else rejected(draw(st.sampled_from(REASONS)), words)])
    chatter = f"CHATTER{number}: now I look at the next file."
    if work and draw(st.booleans()):
        work.insert(draw(st.integers(0, len(work) - 1)), Words("assistant", chatter))
    has_answer = draw(st.integers(0, 5)) > 0
    answer = f"ANSWER{number}: port 8080 was taken by the old worker. {'It is. ' * draw(st.sampled_from((0, 60)))}"
    return Turn(f"REQUEST{number}: fix part {number}.{behind}", tuple(work), chatter, answer * has_answer, tuple(said))


@st.composite
def talks(draw: st.DrawFn) -> list[Turn]:
    """Some turns, of which the last one is not over."""
    return [draw(turns(number)) for number in range(draw(st.integers(1, 8)))]


def messages(talk: Sequence[Turn], written_in: str) -> list[object]:
    """A conversation in a format, or in XML."""
    rounds: list[Round] = []
    for turn in talk:
        rounds += [Words("user", turn.request), *turn.work]
        rounds += [Words("assistant", turn.answer)] if turn.answer and turn is not talk[-1] else []
    rounds += [*reads(3, 40), Words("assistant", f"{talk[-1].chatter} And the next.")]
    return WIRE[written_in](rounds) if written_in in WIRE else in_text(rounds, "xml", sorted(CARRIERS)[0])
