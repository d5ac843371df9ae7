"""Sum up in levels: several summaries of one level become one of the next, so older messages take less room."""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from autoprune.conversation.transcript import Speaker
from autoprune.facts.utterances import Utterance
from autoprune.summarizers.brief import (
    Answer,
    Ask,
    Brief,
    Failed,
    Steps,
    Summarizer,
    Written,
    calls_model,
    identity_of,
    keeps_request,
    with_usage,
)
from autoprune.summarizers.driver import run, steps_of
from autoprune.summarizers.sections import (
    GOAL,
    JOINT_TOKENS,
    Head,
    Section,
    body_of,
    cut,
    first_that_fits,
    fit_head,
    left_out_note,
    parse_sections,
    quantity,
    request_of,
    resume,
    without_request,
    write_sections,
)

TITLE = re.compile(r"Level ([1-9])")
DEEPEST = 9  # levels: a title has one digit
LEAST = 8  # tokens of a section; one that would have fewer goes

Leveled = tuple[tuple[int, str], ...]  # the level and the text of each section, oldest first
Merging = Generator[Sequence[Ask], Sequence[Answer], Leveled]


@dataclass(frozen=True)
class Levels:
    """Sum up in sections, oldest first; the older a section, the shorter it is. `inner` writes each section.

    New messages become a section of level 1. `fanout` sections of a level are merged into one section of the next, or
    fewer if there is no room, up to level `depth` (at most 9). If there is still no room, the oldest section is
    shortened and finally left out. The user's first request comes above all sections and is never summarized. If
    `inner` fails on the new messages, the whole summary fails. If `inner` fails to merge sections, they stay unchanged
    as far as there is room, and the answer's notes say so.

    An `inner` that needs no model and has its own sections, such as `Digest`, continues these itself. Then its text is
    the whole summary, without levels.
    """

    inner: Summarizer
    fanout: int = 4
    depth: int = 3
    keeps_request: ClassVar[bool] = True

    @property
    def calls_model(self) -> bool:
        """Whether `inner` calls a model."""
        return calls_model(self.inner)

    @property
    def identity(self) -> str:
        """The identity of `inner`, and the settings."""
        return f"Levels({identity_of(self.inner)}, fanout={self.fanout}, depth={self.depth})"

    @property
    def _deepest(self) -> int:
        return min(max(self.depth, 1), DEEPEST)

    def __call__(self, brief: Brief, /) -> Answer:
        """Return the sections in at most `brief.max_tokens` tokens."""
        return run(self.steps(brief))

    def steps(self, brief: Brief) -> Steps:
        """Ask for a section on the new messages, then merge sections as long as there are too many."""
        if not self.calls_model and keeps_request(self.inner):
            return (yield from steps_of(self.inner, brief))
        head, mine = resume(brief, _is_mine)
        shown = fit_head(head, brief)
        sections = tuple((min(int(section.title[-1]), self._deepest), section.body) for section in mine)
        answers: list[Answer] = []
        if new := without_request(brief, shown):
            left = brief.max_tokens - brief.count(_levels_text(shown, sections))
            answers.append((yield from self._ask(new, max(left // 2, self._section_share(shown, brief)), brief)))
            if isinstance(answers[-1], Failed):
                return answers[-1]
            sections = (*sections, (1, answers[-1].text))
        sections = yield from self._merge(sections, shown, brief, answers)
        text = first_that_fits(_shrinking_levels(sections, head, brief), head, brief)
        return with_usage(text, answers, _level_notes(text, sections, head, answers))

    def _merge(self, sections: Leveled, shown: Head, brief: Brief, answers: list[Answer]) -> Merging:
        """Merge sections until there are few enough; add each answer to `answers`."""
        while span := self._too_many(sections, brief.count(_levels_text(shown, sections)) > brief.max_tokens):
            before, several, after = sections[: span[0]], sections[slice(*span)], sections[span[1] :]
            said = tuple(Utterance(Speaker.OTHER, body) for _, body in several)
            half = sum(brief.count(body) for _, body in several) // 2
            # The merged section gets half the room, so that new messages have some.
            answer = yield from self._ask(said, max(min(half, 2 * self._section_share(shown, brief)), LEAST), brief)
            answers.append(answer)
            if isinstance(answer, Failed):
                break
            sections = (*before, (several[0][0] + 1, answer.text), *after)
        return sections

    def _too_many(self, sections: Leveled, is_over: bool) -> tuple[int, int] | None:
        """Find the sections to merge: the lowest full level, or without room the lowest level with two sections."""
        fanout = max(self.fanout, 2)
        for least, most in ((fanout, fanout), (2, len(sections))) if is_over else ((fanout, fanout),):
            for level in range(1, self._deepest):
                positions = [number for number, (found, _) in enumerate(sections) if found == level]
                if len(positions) >= least:
                    return positions[0], positions[0] + min(most, len(positions))
        return None

    def _section_share(self, shown: Head, brief: Brief) -> int:
        """Compute the tokens of each section if there are as many sections as possible."""
        most = self._deepest * (max(self.fanout, 2) - 1) + 1
        return max((brief.max_tokens - brief.count(write_sections(shown))) // most, LEAST)

    def _ask(self, said: tuple[Utterance, ...], share: int, brief: Brief) -> Steps:
        """Ask for a section on messages, or in place of several sections.

        If `inner` has a section for the first request, it gets the request, so as not to mistake a later one for it.
        """
        goal = write_sections((Section(GOAL, request_of(brief)),)) if keeps_request(self.inner) else ""
        room = share + (brief.count(goal) + JOINT_TOKENS if goal else 0)
        asked = replace(brief, utterances=said, previous=goal, max_tokens=room)
        answer = yield from steps_of(self.inner, asked)
        if not isinstance(answer, Written):
            return answer
        text = (_without_goal(answer.text) if goal else answer.text).strip()
        size = brief.count(text)
        note = (f"the summary had {size} tokens and was cut to {share}",) if size > share else ()
        return replace(answer, text=cut(text, share, brief.count), notes=(*answer.notes, *note))


def _without_goal(text: str) -> str:
    """Drop the section for the first request, unless there is no other."""
    return write_sections(section for section in parse_sections(text) or () if section.title != GOAL) or text


def _level_notes(text: str, sections: Leveled, head: Head, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield notes on sections that were not merged, left out or shortened, and on a shortened request."""
    for answer in answers:
        if isinstance(answer, Failed):
            yield f"sections of the summary could not be merged ({answer.why})"
    parsed = parse_sections(text) or ()
    remaining = tuple((int(section.title[-1]), section.body) for section in parsed if _is_mine(section))
    if len(remaining) < len(sections):
        yield f"no room for the oldest of the summary: {quantity(len(sections) - len(remaining), 'section')} left out"
    elif remaining != tuple((level, body.strip()) for level, body in sections):
        yield "the oldest section of the summary was shortened"
    yield from left_out_note(body_of(head, GOAL), text)


def _is_mine(section: Section) -> bool:
    return bool(TITLE.fullmatch(section.title))


def _levels_text(shown: Head, sections: Leveled) -> str:
    return write_sections((*shown, *(Section(f"Level {level}", body) for level, body in sections)))


def _shrinking_levels(sections: Leveled, head: Head, brief: Brief) -> Iterator[str]:
    """Yield the text with less and less of its oldest section, then without that section, until no section is left."""
    shown = fit_head(head, brief)
    while sections:
        text = _levels_text(shown, sections)
        yield _levels_text(fit_head(head, brief, _levels_text((), sections)), sections)
        yield text
        (level, oldest), *rest = sections
        size = brief.count(oldest)
        less = cut(oldest, min(size - 1, size + brief.max_tokens - brief.count(text)), brief.count)
        is_kept = LEAST <= brief.count(less) < size
        sections = ((level, less), *rest) if is_kept else tuple(rest)
    yield write_sections(shown)
