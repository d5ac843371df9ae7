"""Writes docs/benchmark.md and its charts from docs/benchmark.json, which `prunebench` has written.

`python benchmarks/prunebench/docs/benchmark_page.py` writes them, and with `FOLDER` after it to another folder. With
`--add FILE` it first adds the rows of a file that `prunebench --policy … --json` has written. The cards of the policies
come from `prunebench.policies`, and their examples from running them.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprune.apps.replay.rows import FEW_ATOMS
from benchmark_cards import example
from benchmark_chart import draw

from prunebench.command import json_text
from prunebench.policies import POLICIES, Published

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DOCS = ROOT / "docs"
FIGURES = DOCS / "benchmark.json"
TEMPLATE = HERE / "benchmark_page.txt"
MANIFEST = ROOT / "benchmarks" / "prunebench" / "sessions.json"
LONG_LIVED = {"one-hour-cache": "anthropic-1h"}  # the price list of a corpus; that of the others is the first one
GROUPS = ("code", "edits", "facts")
ALL_GROUPS = (*GROUPS, "shell edits")
PROTECTED = {"words": "user's words", "failure": "last failure", "files": "files being edited"}
SAME = ("files", "sessions", "episodes", "requests", "tokens", "needed")  # of a corpus to which rows are added
WHOLE = (1.0, 1.0, 1.0)  # a share with its interval
Row = Mapping[str, Any]


def page(known: Mapping[str, Any]) -> str:
    """Return the text of the page."""
    parts = {
        "version": known["version"],
        "leaderboard": "\n".join(leaderboard(known)),
        "corpora": "\n".join(line for corpus in known["corpora"] for line in section(known, corpus)),
        "cards": "\n".join(line for name in POLICIES for line in card(POLICIES[name], known)),
        "prices": "\n".join(price_rows(known["prices"])),
        "unchecked": str(sum(not each.checked for each in POLICIES.values())),
        "policies": str(len(POLICIES)),
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, value in parts.items():
        text = text.replace(f"<<{name}>>", value)
    return text


def list_of(corpus: Row) -> str:
    """The price list by which a corpus is ranked."""
    return LONG_LIVED.get(corpus["name"]) or next(iter(corpus["bills"]))


def rows_of(corpus: Row, prices: str) -> Iterator[tuple[Row, Row]]:
    """Yield the bill of each policy at a price list, and its effect, from the lowest bill to the highest."""
    effects = {(each["policy"], each["prices"]): each for each in corpus["effects"]}
    for bill in sorted(corpus["bills"][prices], key=lambda each: each["bill"][0]):
        yield bill, effects.get((bill["policy"], prices)) or effects[bill["policy"], None]


def least(corpus: Row, effect: Row) -> Sequence[float]:
    """The lowest of the shares of evidence, with its interval."""
    shares = (
        share for group, share in effect["evidence"].items() if group == "code" or corpus["needed"][group] >= FEW_ATOMS
    )
    return min(shares, default=WHOLE)


def leaderboard(known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of all policies over all corpora: bill, lowest share of evidence, and what else is lost.

    The order is that of the bills in the first corpus.
    """
    corpora = known["corpora"]
    found = {
        corpus["name"]: {bill["policy"]: (bill, effect) for bill, effect in rows_of(corpus, list_of(corpus))}
        for corpus in corpora
    }
    yield f"| policy | {' | '.join(f'[{name}](#{name})' for name in found)} | user's words |"
    yield f"|---|{'---|' * len(found)}---|"
    for name in next(iter(found.values())):
        cells = (bill_and_evidence(corpus, *found[corpus["name"]][name]) for corpus in corpora)
        effects = [corpus[name][1] for corpus in found.values()]
        words = min(effect["protected"]["words"][0] for effect in effects if "words" in effect["protected"])
        refused = "‡" if any(effect["refused"] for effect in effects) else ""
        yield f"| {label(name, known)}{refused} | {' | '.join(cells)} | {words:.0%} |"


def bill_and_evidence(corpus: Row, bill: Row, effect: Row) -> str:
    """The bill and the lowest share of evidence, with a mark if most sessions were not changed."""
    return f"{money(bill['bill'])},&nbsp;{least(corpus, effect)[0]:.0%}{idle_mark(corpus, effect)}"


def idle_mark(corpus: Row, effect: Row) -> str:
    """A mark if the policy did nothing in more than half of the sessions."""
    does_nothing = 2 * effect["idle_sessions"] > corpus["sessions"] and effect["policy"] != "none"
    return "\u00a0○" if does_nothing else ""


def money(share: Sequence[float]) -> str:
    """A bill: bold if it is significantly below 1, with an arrow if it is significantly above.

    An empty interval says nothing: then there is only one session.
    """
    value, low, high = share
    if low == high:
        return f"{value:.3f}"
    return f"**{value:.3f}**" if high < 1 else f"{value:.3f}&nbsp;↑" if low > 1 else f"{value:.3f}"


def interval(share: Sequence[float], factor: float = 1, form: str = ".2f") -> str:
    """A confidence interval, "" if it is empty."""
    _, low, high = (f"{factor * each:{form}}" for each in share)
    return f" [{low}, {high}]" if low != high else ""


def percent(share: Sequence[float] | None) -> str:
    """A share in percent with its interval, a dash if nothing was needed."""
    return "–" if share is None else f"{100 * share[0]:.1f}{interval(share, 100, '.0f')}"


def label(name: str, known: Mapping[str, Any]) -> str:
    """The name of a policy with its marks, linked to its card."""
    about = known["policies"][name]
    if about["kind"] != "published":
        return f"`{name}`"
    marks = ("\\*" if about["shortens_unseen"] else "") + ("" if about["checked"] else "†")
    marks += "§" if name in POLICIES and POLICIES[name].outdated else ""
    return f"[{name}](#{name}){marks}" if name in POLICIES else f"`{name}`{marks}"


def section(known: Mapping[str, Any], corpus: Row) -> Iterator[str]:
    """Yield what a corpus is, its chart and its tables."""
    name, prices = corpus["name"], list_of(corpus)
    about = json.loads(MANIFEST.read_text(encoding="utf-8"))["corpora"].get(name, "")
    sampled = f"{corpus['sessions']} of its {corpus['files']} files"
    sizes = f"{corpus['requests']:,} requests, {corpus['tokens'] / 1e6:.1f} million tokens"
    needed = ", ".join(f"{count:,} for {group}" for group, count in corpus["needed"].items() if count)
    yield f"### {name}\n\n{about} Replayed: {sampled}, {sizes}. Pieces of evidence: {needed}.\n"
    yield f"![Bill against evidence of each policy on {name}](pictures/benchmark_{name}.svg)\n"
    yield from bill_table(known, corpus, prices)
    yield '\n<details markdown="1"><summary>At each price list</summary>\n'
    yield from price_table(known, corpus)
    yield '\n</details>\n\n<details markdown="1"><summary>Evidence, protected content and prompts</summary>\n'
    yield from effect_table(known, corpus, prices)
    yield "\n</details>\n"


def bill_table(known: Mapping[str, Any], corpus: Row, prices: str) -> Iterator[str]:
    """Yield the table of bills at a price list."""
    yield f"| at `{prices}` | bill | no re-reads | worst session | cache breaks | code | edits | facts |"
    yield "|---|---|---|---|---|---|---|---|"
    for bill, effect in rows_of(corpus, prices):
        shares = (effect["evidence"].get(group) for group in GROUPS)
        cells = (f"{100 * share[0]:.1f}" if share else "–" for share in shares)
        yield (
            f"| {label(bill['policy'], known)}{idle_mark(corpus, effect)} | "
            f"{money(bill['bill'])}{interval(bill['bill'])} | "
            f"{bill['without_rereads'][0]:.3f} | {bill['worst']:.2f} | "
            f"{effect['cache_breaks']:,} | {' | '.join(cells)} |"
        )


def price_table(known: Mapping[str, Any], corpus: Row) -> Iterator[str]:
    """Yield the table of bills at each price list."""
    bills = {prices: {each["policy"]: each for each in ranking} for prices, ranking in corpus["bills"].items()}
    yield f"| bill | {' | '.join(bills)} |"
    yield f"|---|{'---|' * len(bills)}"
    for bill, _ in rows_of(corpus, list_of(corpus)):
        name = bill["policy"]
        yield f"| {label(name, known)} | {' | '.join(money(bills[each][name]['bill']) for each in bills)} |"


def effect_table(known: Mapping[str, Any], corpus: Row, prices: str) -> Iterator[str]:
    """Yield the table of evidence, protected content, long prompts, refused requests and idle sessions."""
    columns = (*ALL_GROUPS, *PROTECTED.values(), "95th percentile of prompts", "refused requests", "idle sessions")
    yield f"| in view, % | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for _, effect in rows_of(corpus, prices):
        shares = [effect["evidence"].get(group) for group in ALL_GROUPS]
        shares += [effect["protected"].get(kind) for kind in PROTECTED]
        prompt = [each / 1_000 for each in effect["long_prompt"]]
        tokens = f"{prompt[0]:.0f}k{interval(prompt, 1, '.0f')}"
        ends = f"{tokens} | {effect['refused']:,} | {effect['idle_sessions']} of {corpus['sessions']}"
        yield f"| {label(effect['policy'], known)} | {' | '.join(map(percent, shares))} | {ends} |"


def price_rows(prices: Mapping[str, Row]) -> Iterator[str]:
    """Yield a row for each price list."""
    for name, each in prices.items():
        yield (
            f"| `{name}` | {each['written']:g} | {each['read']:g} | {each['output']:g} | "
            f"{each['cache_life'] / 60:g} min |"
        )


def card(policy: Published, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the card of a policy."""
    lost, idle = losses(policy.name, known)
    yield f"### {policy.name}\n"
    yield f"**{policy.tool}.** {policy.decides}\n"
    if policy.outdated:
        yield f"- *Version:* {sentence(policy.outdated)}"
    yield f"- *Parameters:* {sentence(policy.defaults)}"
    yield f"- *Before → after:* {example(policy)}"
    yield f"- *It loses:* {lost}"
    yield f"- *It does nothing:* {sentence(policy.idle)}{idle}"
    if policy.left_out:
        yield f"- *Left out:* {sentence(policy.left_out)}"
    yield f"- *Checked:* {checked(policy)}"
    yield f"- *Source:* {sentence(policy.source)}\n"


def checked(policy: Published) -> str:
    """How a policy was compared with its original, or why not."""
    if policy.checked:
        return f"it sends what {policy.checked} sends, request by request, in the conversations of the tests."
    return f"no. {sentence(policy.unchecked)}"


def losses(name: str, known: Mapping[str, Any]) -> tuple[str, str]:
    """Describe the evidence that a policy lost in each corpus, and the sessions in which it changed nothing."""
    lost, idle = [], []
    for corpus in known["corpora"]:
        effect = next((each for each in corpus["effects"] if each["policy"] == name), None)
        if effect is None:
            return "not part of this run.", ""
        shares = {group: 100 - 100 * effect["evidence"][group][0] for group in GROUPS if group in effect["evidence"]}
        known_losses = [f"{share:.1f}% for {group}" for group, share in shares.items() if share]
        if known_losses:
            lost.append(f"{', '.join(known_losses)} in {corpus['name']}")
        if effect["idle_sessions"]:
            idle.append(f"{effect['idle_sessions']} of {corpus['sessions']} sessions of {corpus['name']}")
    what = f"of the evidence, {'; '.join(lost)}." if lost else "no evidence in these corpora."
    return what, f" Here: {', '.join(idle)}." if idle else ""


def sentence(text: str) -> str:
    """A text with a full stop."""
    return text if text.endswith(".") else f"{text}."


def with_rows(known: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add the rows of figures of some policies to those of the same sessions. Rows that a policy has are replaced.

    Raises ValueError if a corpus has not the same sessions, or another version read them otherwise.
    """
    corpora = {each["name"]: each for each in known["corpora"]}
    replaced = more["policies"].keys() - {"none"}
    for each in more["corpora"]:
        old = corpora.get(each["name"], {})
        if different := [name for name in SAME if old.get(name) != each[name]]:
            raise ValueError(f"{each['name']} differs in {', '.join(different)}: replay all policies again")
        bills = {name: _merged(rows, each["bills"][name], replaced) for name, rows in old["bills"].items()}
        corpora[each["name"]] = {**old, "effects": _merged(old["effects"], each["effects"], replaced), "bills": bills}
    policies = {**known["policies"], **{name: more["policies"][name] for name in replaced}}
    return {**known, "policies": policies, "corpora": list(corpora.values())}


def _merged(old: Sequence[Row], new: Sequence[Row], replaced: Collection[str]) -> list[Row]:
    kept = [each for each in old if each["policy"] not in replaced]
    return [*kept, *(each for each in new if each["policy"] in replaced)]


def write_page(folder: Path, figures: Path = FIGURES) -> None:
    """Write the page and its charts. The same figures give the same bytes."""
    known = json.loads(figures.read_text(encoding="utf-8"))
    (folder / "pictures").mkdir(exist_ok=True)
    (folder / "benchmark.md").write_text(page(known), encoding="utf-8")
    for corpus in known["corpora"]:
        points = [
            (bill["policy"], bill["bill"], least(corpus, effect)) for bill, effect in rows_of(corpus, list_of(corpus))
        ]
        kinds = {name: each["kind"] for name, each in known["policies"].items()}
        text = draw(points, kinds, f"bill at {list_of(corpus)}")
        (folder / "pictures" / f"benchmark_{corpus['name']}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--add"]:
        figures = with_rows(*(json.loads(Path(file).read_text(encoding="utf-8")) for file in (FIGURES, sys.argv[2])))
        FIGURES.write_text(json_text(figures), encoding="utf-8")
        write_page(DOCS)
    else:
        write_page(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
