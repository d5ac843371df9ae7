"""Writes RESULTS.md from results.json, which `prunebench … --json` has written.

`python benchmarks/prunebench/results.py` writes it. With `--add FILE` it first adds the rows of a file that
`prunebench --policy … --json` has written. What the policies do comes from `prunebench.policies`.
"""

import json
import sys
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprune.apps.replay.rows import FEW_ATOMS

from prunebench.command import json_text
from prunebench.policies import POLICIES, Published

HERE = Path(__file__).parent
FIGURES = HERE / "results.json"
PAGE = HERE / "RESULTS.md"
LONG_LIVED = {"one-hour-cache": "anthropic-1h"}  # the price list of a corpus; that of the others is the first one
SAME = ("files", "sessions", "episodes", "requests", "tokens", "needed")  # of a corpus to which rows are added
WHOLE = (1.0, 1.0, 1.0)  # a share with its interval
WIDTH = 120  # characters of a line
BILLED = "They are billed at Anthropic's prices, one-hour-cache with a cache of an hour, the others of 5 minutes."
Row = Mapping[str, Any]
TEXT = """\
# Results of prunebench

Written by `python benchmarks/prunebench/results.py` from [results.json](results.json); the [README](README.md) says how
it is measured, and how to add a row.

Replayed on November 28, 2026. `headroom` is left out: it takes hours. Rows near each other differ by chance.

A cell has the bill, as a share of that without pruning, and the share of what the agent used later that was still in
view: "1.05 ↑, 95%" is 5% dearer than no pruning. **Bold** is significantly cheaper than no pruning, ↑ significantly
dearer. *User's words* is the lowest share of them in a corpus that stayed whole.

<<table>>

<<corpora>>

- ○ does nothing in more than half of the sessions of a corpus
- \\* shortens results before the model has seen them
- † was not compared with its original
- ‡ sends prompts that the provider would refuse
- § is not what the newest release of the tool does by itself
- `clairvoyant` knows what will be needed and keeps all of it: a bound for rules that clear results, not for those that
  drop whole messages. `cache_aware` and `fold_steps` were tuned on the sessions of assistants.

## The policies

The first sentence about each; `prunebench/policies/` has the rest, the parameters and the sources.

<<policies>>
"""


def page(known: Mapping[str, Any]) -> str:
    """Return the text of the page."""
    corpora = (
        f"{each['name']} ({each['sessions']:,} session{'s' * (each['sessions'] > 1)}, {each['requests']:,} requests)"
        for each in known["corpora"]
    )
    parts = {
        "table": "\n".join(leaderboard(known)),
        "corpora": textwrap.fill(f"The corpora are {', '.join(corpora)}. {BILLED}", WIDTH),
        "policies": "\n".join(map(described, POLICIES.values())),
    }
    text = TEXT
    for name, value in parts.items():
        text = text.replace(f"<<{name}>>", value)
    return text


def rows_of(corpus: Row) -> Iterator[tuple[Row, Row]]:
    """Yield the bill of each policy, and its effect, from the lowest bill to the highest."""
    prices = LONG_LIVED.get(corpus["name"]) or next(iter(corpus["bills"]))
    effects = {(each["policy"], each["prices"]): each for each in corpus["effects"]}
    for bill in sorted(corpus["bills"][prices], key=lambda each: each["bill"][0]):
        yield bill, effects.get((bill["policy"], prices)) or effects[bill["policy"], None]


def least(corpus: Row, effect: Row) -> float:
    """The lowest of the shares of evidence."""
    shares = (
        share for group, share in effect["evidence"].items() if group == "code" or corpus["needed"][group] >= FEW_ATOMS
    )
    return min(shares, default=WHOLE)[0]


def leaderboard(known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the table of all policies over all corpora, in the order of the bills in the first corpus."""
    corpora = known["corpora"]
    found = {corpus["name"]: {bill["policy"]: (bill, effect) for bill, effect in rows_of(corpus)} for corpus in corpora}
    yield f"| policy | {' | '.join(found)} | user's words |"
    yield f"|---|{'---|' * len(found)}---|"
    for name in next(iter(found.values())):
        cells = (bill_and_evidence(corpus, *found[corpus["name"]][name]) for corpus in corpora)
        effects = [corpus[name][1] for corpus in found.values()]
        words = min(effect["protected"]["words"][0] for effect in effects if "words" in effect["protected"])
        refused = "‡" if any(effect["refused"] for effect in effects) else ""
        yield f"| {label(name, known)}{refused} | {' | '.join(cells)} | {words:.0%} |"


def bill_and_evidence(corpus: Row, bill: Row, effect: Row) -> str:
    """The bill and the lowest share of evidence, with a mark if most sessions were not changed."""
    is_idle = 2 * effect["idle_sessions"] > corpus["sessions"] and effect["policy"] != "none"
    return f"{money(bill['bill'])}, {least(corpus, effect):.0%}{' ○' * is_idle}"


def money(share: Sequence[float]) -> str:
    """A bill: bold if it is significantly below 1, with an arrow if it is significantly above.

    An empty interval says nothing: then there is only one session.
    """
    value, low, high = share
    if low == high:
        return f"{value:.3f}"
    return f"**{value:.3f}**" if high < 1 else f"{value:.3f} ↑" if low > 1 else f"{value:.3f}"


def label(name: str, known: Mapping[str, Any]) -> str:
    """The name of a policy with its marks."""
    about = known["policies"][name]
    if about["kind"] != "published":
        return f"`{name}`"
    marks = ("\\*" if about["shortens_unseen"] else "") + ("" if about["checked"] else "†")
    return f"`{name}`{marks}" + ("§" if name in POLICIES and POLICIES[name].outdated else "")


def described(policy: Published) -> str:
    """One line: the tool, what the policy does, and with which original it was compared."""
    version = f" {policy.outdated.rstrip('.')}." if policy.outdated else ""
    compared = f"Compared with {policy.checked}." if policy.checked else ""
    does = policy.decides.partition(". ")[0].rstrip(".")
    text = f"- `{policy.name}` ({policy.tool}): {does}.{version} {compared}".replace("<", "\\<")
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


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


if __name__ == "__main__":
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    if sys.argv[1:2] == ["--add"]:
        figures = with_rows(figures, json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
        FIGURES.write_text(json_text(figures), encoding="utf-8")
    PAGE.write_text(page(figures), encoding="utf-8")
