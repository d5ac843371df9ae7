"""Render a replay as one self-contained HTML file: its answer, the strategies, the conversations. Opens no file.

Sessions hold hostile text. `element` escapes it in markup, and the script only ever sets it as text. The page's policy
allows only its own style and script, by their hashes.
"""

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from string import Template

from autoprune.apps.frontend.markup import Markup, asset, bundle, collapsible, concatenate, element, escape_text
from autoprune.apps.replay.compaction_costs import sum_compactions
from autoprune.apps.replay.corpus import why_skipped
from autoprune.apps.replay.detail import SessionDetail
from autoprune.apps.replay.page_sessions import broken_promises, clean_all, conversations, session_data, session_list
from autoprune.apps.replay.page_strategies import Ranked, bill_section, legend, points, terms, with_code
from autoprune.apps.replay.rows import Interval
from autoprune.apps.replay.session import Overview, SessionFigures, overview
from autoprune.apps.replay.spending import change_text, dollars_text, outlook
from autoprune.apps.replay.verdict import RUN_COMMAND, Standing, overview_rows
from autoprune.errors import count_noun

MOST_ROWS = 200  # of a list; the rest is only counted
LEAST_REST = 0.005  # of the cost: a smaller part that was not replayed is not drawn
SHARED_SCRIPTS = ("dom.js", "numbers.js", "chart.js", "columns.js")
SCRIPTS = ("frontier.js", "lives.js", "listing.js", "report.js")

WITH_TEXTS = "This page holds texts of tool results: whoever reads it reads what the tools said."
NO_TEXTS = """This page holds the first words of the user, but no text of a result, and of the calls only tools’ names,
paths and names of programs. With --texts, results open to their texts."""


def page(
    found: Sequence[SessionFigures],
    details: Sequence[SessionDetail],
    ranking: Mapping[str, Sequence[Standing]],
    *,
    command: str,
    advice: str,
    notes: Sequence[str] = (),
    paid: float = 0.0,
    replayed: float = math.inf,
) -> str:
    """Render replayed sessions as an HTML page.

    `details` are the sessions that the page can open, `ranking` their strategies by the name of the prices, those to
    show first in front, `command` the command that made the page, `notes` remarks on the figures, `paid` the recorded
    cost of all sessions in dollars, 0 if it is not known, and `replayed` the most of it that can have been replayed.
    """
    bills = [(name, [Ranked(*each) for each in enumerate(rows, 1)]) for name, rows in ranking.items()]
    prices, first = bills[0] if bills else ("", [])
    shown = details if bills else ()
    chosen = _chosen(first)
    whole = overview(found)
    rows = conversations(found, chosen.row.strategy if chosen else "", prices)
    return fill(
        title=f"Replay of {count_noun(whole.sessions, 'session')}",
        summary=_summary(whole),
        answer=concatenate(_answer(found, chosen, prices, paid, replayed)),
        command=command,
        bills=concatenate(bill_section(number, name, ranked, advice) for number, (name, ranked) in enumerate(bills)),
        sessions=element(
            "section",
            element("h2", "The conversations", id="sessions"),
            *(session_list(rows, whole.episodes, shown) if rows else ()),
            *_totals(found, whole, notes),
            aria_labelledby="sessions",
        ),
        texts=escape_text(WITH_TEXTS if any(each.has_texts for each in shown) else NO_TEXTS),
        ranked=[ranked for _, ranked in bills],
        details=session_data(shown, found, first),
    )


def fill(*, title: str, command: str, ranked: Sequence[Sequence[Ranked]], **parts: str) -> str:
    """Write the page's file, with the style, the script and the data of the charts."""
    own = {name: asset(f"report/{name}", "autoprune.apps.replay") for name in ("report.css", *SCRIPTS)}
    style = asset("base.css") + own.pop("report.css")
    script = bundle({**{name: asset(name) for name in SHARED_SCRIPTS}, **own})
    return Template(asset("report/report.html", "autoprune.apps.replay")).substitute(
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        title=escape_text(f"{title}: autoprune"),
        style=style,
        command=escape_text(command),
        data=_json([points(each) for each in ranked]),
        script=script,
        **parts,
    )


def _chosen(ranked: Sequence[Ranked]) -> Ranked | None:
    """Return the strategy that the page compares with no pruning: that of `autoprune run`, or else the best choice."""
    choices = [each for each in ranked if each.kind == "choice"]
    return next((each for each in choices if each.standing.run), choices[0] if choices else None)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """JSON for a script element, where `<` could end the element."""
    return json.dumps(clean_all(value), separators=(",", ":")).replace("<", "\\u003c")


# The answer: a sentence and two bars.


def _answer(
    found: Sequence[SessionFigures], chosen: Ranked | None, prices: str, paid: float, replayed: float
) -> Iterator[Markup]:
    """Yield the sentence and the chart of the first screen; nothing if no strategy that can be chosen was replayed."""
    if chosen is None:
        return
    standing = chosen.standing
    name, label = (f"`{standing.run}`", RUN_COMMAND) if standing.run else (chosen.name, chosen.name)
    likely = outlook(found, chosen.row.strategy, prices, paid, replayed)
    if not likely.replayed:
        yield element("p", with_code(_share_sentence(standing, name)), class_="answer")
        yield _bars(label, ("100%", standing.rereads.text(".0f", 100, "%")), standing.rereads)
    else:
        yield element("p", with_code(likely.sentence(name)), class_="answer")
        would_pay, rest = likely.would_pay, likely.paid - likely.replayed
        share = Interval(*(each / paid for each in (would_pay.value, would_pay.low, would_pay.high)))
        yield _bars(label, (f"${paid:,.2f}", dollars_text(would_pay)), share, rest / paid)
    if kept := _kept(standing):
        yield element("p", kept)
    if likely.replayed:
        yield element("p", likely.basis, class_="note")
    if (known := sum_compactions(each for session in found for each in session.compactions)).count:
        yield element("p", with_code(known.in_words(f"`{standing.run or RUN_COMMAND}`")))
        if known.afterwards:
            yield element("p", known.afterwards)
        yield element("p", f"{known.basis} {known.touched}".rstrip(), class_="note")


def _share_sentence(standing: Standing, name: str) -> str:
    """Say what a strategy would have changed if the cost in dollars is not known."""
    share, what = standing.rereads, "this session" if standing.sessions == 1 else "these sessions"
    if share.low <= 1.0 <= share.high:
        cost = share.text(".0f", 100, "%")
        return f"With {name} {what} would have cost {cost} of the unpruned cost; the difference is not significant."
    return f"With {name} {what} would have cost {change_text(share.value - 1)}."


def _kept(standing: Standing) -> str:
    """Say how much of what the agent needed later would have stayed in view; "" if it needed nothing."""
    row = standing.row
    shares = [share.value for group, share in row.evidence.items() if row.needed[group]]
    if not shares:
        return ""
    little = "" if standing.keeps_enough else " That is little: see the advice below."
    least = "all" if min(shares) == 1.0 else f"at least {100 * min(shares):.1f}% each"
    return (
        f"Of the code, the edited texts and the facts that the agent later needed from tool results, {least} would "
        f"still have been in its prompt.{little}"
    )


def _bars(name: str, values: tuple[str, str], share: Interval, rest: float = 0.0) -> Markup:
    """Two bars: no pruning, and a strategy with its confidence interval. `rest` is the share that was not replayed."""
    most = max(1.0, share.high)
    has_rest = rest >= LEAST_REST
    legends = [("area sent", "", "replayed"), ("area rest", "", "not replayed, counted as unchanged")]
    saved = [("area cleared", "", "saved")] if share.value < 1 else []
    return element(
        "figure",
        _bar("No pruning", values[0], Interval(1.0, 1.0, 1.0), rest, most),
        _bar(name, values[1], share, rest, most),
        legend(*(legends if has_rest else legends[:1]), *saved) if has_rest or saved else "",
        class_="compared",
    )


def _bar(name: str, value: str, share: Interval, rest: float, most: float) -> Markup:
    def part(kind: str, start: float, end: float) -> Markup:
        place = {"x": f"{100 * start / most:.2f}%", "width": f"{100 * max(0.0, end - start) / most:.2f}%"}
        return element("rect", class_=kind, y="0", height="100%", **place)

    ends = {"x1": f"{100 * share.low / most:.2f}%", "x2": f"{100 * share.high / most:.2f}%"}
    shapes = [part("rest", 0.0, rest), part("sent", rest, share.value), part("cleared", share.value, 1.0)]
    if share.low < share.high:
        shapes.append(element("line", class_="interval", y1="50%", y2="50%", **ends))
    drawn = element("svg", *shapes, aria_hidden="true", focusable="false")
    return element("p", element("span", name), drawn, element("b", value), class_="bar")


# The sections on sessions.


def _summary(whole: Overview) -> Markup:
    return escape_text(
        f"{count_noun(whole.episodes, 'recorded conversation')} with {count_noun(whole.requests, 'request')}, replayed "
        "offline: at each request, each strategy was asked as in a live loop, and the prompt that it would have sent "
        "was measured."
    )


def _totals(found: Sequence[SessionFigures], whole: Overview, notes: Sequence[str]) -> Iterator[Markup]:
    """Yield what is known of all sessions together, and of the files that were skipped."""
    yield element("h3", "All of them together")
    yield terms(dict(overview_rows(whole)))
    if skipped := [(each.path, why) for each in found if (why := why_skipped(each))]:
        lines = [concatenate((element("code", path), f": {why}")) for path, why in skipped]
        yield collapsible(
            f"{count_noun(len(skipped), 'session')} {'was' if len(skipped) == 1 else 'were'} skipped", *_bullets(lines)
        )
    if broken := broken_promises([each for session in found for each in session.figures]):
        yield collapsible(f"Broken guarantees: {len(broken):,}", *_bullets(broken))
    if notes:
        yield element("h3", "Notes")
        yield element("ul", *(element("li", with_code(note)) for note in notes))


def _bullets(lines: Sequence[Markup]) -> Iterator[Markup]:
    """Yield a list of the first lines, and the number of the others."""
    yield element("ul", *(element("li", line) for line in lines[:MOST_ROWS]))
    if len(lines) > MOST_ROWS:
        yield element("p", f"And {len(lines) - MOST_ROWS:,} more.")
