r"""Test whether evidence means anything, on public sessions in which results were cleared and the outcome is known.

    git clone --mirror https://github.com/rcgray/claude-code-bug-phantom-reads-17407 \
        clones/rcgray/claude-code-bug-phantom-reads-17407
    git clone --mirror https://github.com/entireio/cli clones/entireio/cli
    python benchmarks/outcomes.py trials clones
    python benchmarks/outcomes.py clearings clones

`trials`: 126 trials of Claude Code on fixed tasks, in some of which it cleared old results. At the end the user asks
whether the content of files was missing, and the outcome is the agent's answer (SUCCESS: nothing was), as a model
classified it for that repository. Which figure separates the failures from the successes: the size of the prompt, what
was cleared, or the evidence lost? All figures are of the requests before that question. The AUC is computed over all
pairs of a failure and a success, over those in the same quarter by peak prompt, and over those of the same experiment.
Several trials have the same log, which counts once.

`clearings`: the reads of files in the logs of both repositories. Is a cleared read repeated more often than one that is
still in the prompt, at the same age and size? Which of the cleared ones are repeated? When an action used an atom of a
cleared read, had that read been repeated before? A repeat is a later read of some of the same lines. An agent can use
what it read again, so an atom may be used because of a repeat: these figures describe, they do not forecast.

Intervals are 95% bootstrap intervals over trials or sessions. Both commands read the commits below from the clones;
nothing is downloaded.
"""

import argparse
import json
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path, PurePosixPath

from cleared import Stretch, read_log
from estimates import Case, Exposure, auc, estimate, quantile_strata, rate_ratio

sys.path.insert(0, str(Path(__file__).parent / "prunebench"))
from sessions import Source, read_blob, read_manifest

from autoprune.apps.replay.atoms import GROUPS, AtomGroup, Kind

TRIALS = Source(
    corpus="trials",
    repository="rcgray/claude-code-bug-phantom-reads-17407",
    branch="main",
    commit="96731ef211669bf0c7f903ae4c49291b450bf9d2",
    license="MIT",
    path="{key}",
    name="{key}",
    sessions={},
)
LEAST = 10  # reads with an atom of a kind: with fewer, its AUC says nothing
# The logs with a record of cleared results on this branch, the longest of each session.
AT_WORK = ("54/bb2ec87cc8/2", "38/ecf75f2f1d/0", "b0/dc55b3a1dc/1", "d5/99f72ee73a/0")
QUARTERS = 4
AGES = (5, 10, 20, 40, 80)  # requests
SIZES = (500, 2_000, 8_000)  # tokens


def listed_files(source: Source, clones: Path, folder: str) -> list[str]:
    """The paths of the files in a folder of a source's commit."""
    command = ["git", f"--git-dir={source.clone_in(clones)}", "ls-tree", "-rz", "--name-only", source.commit, folder]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{source.repository}: {done.stderr.strip()}; first run\n    {source.command(clones)}")
    return [path for path in done.stdout.split("\0") if path]


def stored_results(paths: Iterable[str], log: str) -> set[str]:
    """The ids of the calls whose results are files beside a log."""
    folder = f"{log.removesuffix('.jsonl')}/tool-results/"
    return {PurePosixPath(path).stem for path in paths if path.startswith(folder)}


@dataclass(frozen=True)
class Trial:
    """A trial: its log, the experiment it belongs to, its outcome, and its figures until the user asks."""

    log: str
    experiment: str
    outcome: str
    peak: int
    figures: dict[str, float]

    @property
    def has_failed(self) -> bool:
        """Whether the agent answered that content was missing."""
        return self.outcome == "FAILURE"


def read_trials(clones: Path) -> Iterator[Trial]:
    """Read the trials with their logs, in the order of their paths."""
    paths = listed_files(TRIALS, clones, "dev/misc")
    clone = TRIALS.clone_in(clones)
    for path in (path for path in paths if path.endswith("/trial_data.json")):
        folder = path.rpartition("/")[0]
        known = json.loads(read_blob(clone, TRIALS.commit, path))
        log = f"{folder}/{known['metadata']['session_file']}"
        stretches = read_log(read_blob(clone, TRIALS.commit, log), log, stored_results(paths, log))
        stretch = max(stretches, key=lambda each: len(each.episode.requests))
        yield trial(stretch, folder.split("/")[-2], known["outcome"]["self_reported"])


def trial(stretch: Stretch, experiment: str, outcome: str) -> Trial:
    """Compute the figures of a trial."""
    numbers = [number for number, request in stretch.cleared.items() if request <= stretch.end]
    cleared = [stretch.results[number] for number in numbers]
    before = [result for result in stretch.results if result.location.message < stop_of(stretch)]
    needs = [need for need in stretch.episode.evidence.needs if need.request < stretch.end]
    lost = Counter(need.atom.kind for _, need in stretch.lost)
    peak = max(stretch.prompts[: stretch.end], default=0)
    figures: dict[str, float] = {
        "peak prompt": peak,
        "cleared results": len(cleared),
        "share of results cleared": len(cleared) / max(1, len(before)),
        "… before they were sent": sum(not stretch.was_sent(number) for number in numbers),
        "cleared reads not repeated": sum(
            each.number in numbers and each.number not in stretch.repeats for each in stretch.reads
        ),
        "tokens cleared": sum(result.tokens for result in cleared),
        "atoms lost": lost.total(),
        "share of atoms lost": lost.total() / max(1, len(needs)),
    }
    figures |= {
        f"{group} lost": sum(lost[kind] for kind in GROUPS[group]) for group in (AtomGroup.CODE, AtomGroup.FACTS)
    }
    return Trial(stretch.session.rpartition("/")[2], experiment, outcome, peak, figures)


def stop_of(stretch: Stretch) -> float:
    """The message at which a stretch ends."""
    return (*stretch.episode.requests, inf)[stretch.end]


def report_trials(clones: Path) -> Iterator[str]:
    """Yield the lines that `trials` prints."""
    known_trials = list(read_trials(clones))
    trials = list({each.log: each for each in known_trials}.values())
    known = [each for each in trials if each.outcome in ("SUCCESS", "FAILURE")]
    failures = sum(each.has_failed for each in known)
    asked = f"{len(known) - failures} SUCCESS, {failures} FAILURE, {len(trials) - len(known)} not asked"
    yield f"{len(known_trials)} trials with {len(trials)} logs: {asked}"
    for name in ("cleared results", "cleared reads not repeated", "atoms lost"):
        for without, is_part in (("no ", False), ("", True)):
            part = [each for each in known if (each.figures[name] > 0) is is_part]
            yield f"{without + name:<29} {len(part):>3}, of them FAILURE {sum(each.has_failed for each in part):>2}"
    yield from trial_table(known)


def trial_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield a table of the AUC of each figure against FAILURE, over all pairs and in two kinds of strata."""
    quarters = quantile_strata({at: each.peak for at, each in enumerate(trials)}, QUARTERS)
    strata: tuple[Callable[[int], object], ...] = (lambda at: None, quarters.get, lambda at: trials[at].experiment)
    yield f"\n{'AUC':<26} {'all pairs':<18}{'same prompt size':<18}same experiment"
    for name in trials[0].figures if trials else ():
        cells = []
        for stratum in strata:
            rows = enumerate(trials)
            cases = [Case(each.figures[name], each.has_failed, at, str(stratum(at))) for at, each in rows]
            cells.append(str(estimate(cases, auc)))
        yield f"{name:<26} {' '.join(cells)}".rstrip()


@dataclass(frozen=True)
class ClearedRead:
    """A cleared read: its size, its age when it was cleared, whether it was repeated after that, and what was lost.

    `lost` counts the atoms of each kind that needed it later.
    """

    session: str
    tokens: int
    age: int
    is_repeated: bool
    lost: Counter[Kind]


def read_logs(clones: Path) -> Iterator[tuple[str, list[Stretch]]]:
    """Yield the project and the stretches of each session: of the trials' repository, and of one at work."""
    paths = listed_files(TRIALS, clones, "dev/misc")
    logs = [path for path in paths if path.endswith(".jsonl") and "/subagents/" not in path and "/agent-" not in path]
    longest: dict[str, tuple[int, str, bytes]] = {}
    for path in logs:
        data, name = read_blob(TRIALS.clone_in(clones), TRIALS.commit, path), path.rpartition("/")[2]
        longest[name] = max((len(data), path, data), longest.get(name, (0, "", b"")))
    for _, path, data in longest.values():
        yield "phantom reads", read_log(data, path, stored_results(paths, path))
    source = next(each for each in read_manifest()[1] if each.repository == "entireio/cli")
    listed_files(source, clones, AT_WORK[0])
    for key in (*AT_WORK, *source.sessions):
        yield "entireio/cli", read_log(read_blob(source.clone_in(clones), source.commit, source.path_of(key)), key)


def cleared_reads(stretch: Stretch) -> Iterator[ClearedRead]:
    """Yield the reads that were cleared before they were repeated."""
    for read in stretch.reads:
        since, again = stretch.cleared.get(read.number, inf), stretch.repeated_at(read)
        if since >= stretch.end or again < since:
            continue
        yield ClearedRead(
            stretch.session,
            stretch.results[read.number].tokens,
            int(since) - read.request,
            again < inf,
            Counter(need.atom.kind for number, need in stretch.lost if number == read.number),
        )


def exposures(stretch: Stretch, *, is_within: bool) -> Iterator[Exposure]:
    """Yield, for each read, the requests at which it was in the prompt and those at which it was cleared.

    A read counts until it is repeated. Strata are its age and size, and the session if `is_within`.
    """
    for read in stretch.reads:
        again, since = stretch.repeated_at(read), stretch.cleared.get(read.number, inf)
        size = bisect_right(SIZES, stretch.results[read.number].tokens)
        for request in range(read.request + 1, int(min(again + 1, stretch.end))):
            age = bisect_right(AGES, request - read.request - 1)
            stratum = (age, size, stretch.session if is_within else "")
            yield Exposure(request >= since, int(request == again), 1, stretch.session, stratum)


def merged(known: Iterable[Exposure]) -> list[Exposure]:
    """Add up the requests of the same session, stratum and exposure."""
    events, requests = Counter[tuple[object, ...]](), Counter[tuple[object, ...]]()
    for each in known:
        key = (each.session, each.stratum, each.is_exposed)
        events[key] += each.events
        requests[key] += each.requests
    return [Exposure(bool(key[2]), events[key], requests[key], key[0], key[1]) for key in requests]


def report_clearings(clones: Path) -> Iterator[str]:
    """Yield the lines that `clearings` prints."""
    stretches: dict[str, list[Stretch]] = {}
    for project, known in read_logs(clones):
        stretches.setdefault(project, []).extend(known)
    yield f"{'':<13}{'cleared':^14}{'kept':^15}  rate of repeats, cleared / kept"
    yield f"{'reads in':<13}{'reads':>7}{'again':>7} {'requests':>9}{'again':>6}  same age, size     same session too"
    for project, known in stretches.items():
        yield rate_row(project, known)
    for project, known in stretches.items():
        yield from prediction_table(project, [read for each in known for read in cleared_reads(each)])
        yield from use_table(known)


def rate_row(project: str, stretches: Sequence[Stretch]) -> str:
    """The line of a project: its cleared and kept reads, those repeated, and the ratios of rates in strata."""
    pooled = merged(each for stretch in stretches for each in exposures(stretch, is_within=False))
    within = merged(each for stretch in stretches for each in exposures(stretch, is_within=True))
    cleared = [read for stretch in stretches for read in cleared_reads(stretch)]
    kept = [each for each in pooled if not each.is_exposed]
    counts = f"{len(cleared):>7}{sum(each.is_repeated for each in cleared):>7}"
    counts += f" {sum(each.requests for each in kept):>9}{sum(each.events for each in kept):>6}"
    return f"{project:<13}{counts}  {estimate(pooled, rate_ratio)!s:<19}{estimate(within, rate_ratio)!s}".rstrip()


def prediction_table(title: str, reads: Sequence[ClearedRead]) -> Iterator[str]:
    """Yield a table of the AUC of each score of the cleared reads against being repeated."""
    sessions = len({each.session for each in reads})
    repeated = sum(each.is_repeated for each in reads)
    yield f"\n{title}: {len(reads)} cleared reads of {sessions} sessions, {repeated} repeated"
    yield f"{'AUC':<24}{'reads > 0':>9}{'repeated':>9}  {'all pairs':<18}same session"
    yield prediction_row("size", reads, [each.tokens for each in reads])
    yield prediction_row("age", reads, [each.age for each in reads])
    yield prediction_row("atoms used later", reads, [each.lost.total() for each in reads])
    for kind in Kind:
        scores = [each.lost[kind] for each in reads]
        if sum(score > 0 for score in scores) >= LEAST:
            yield prediction_row(f"  {kind} used later", reads, scores)


def prediction_row(name: str, reads: Sequence[ClearedRead], scores: Sequence[float]) -> str:
    """The line of a score: the reads above zero, the share of them that was repeated, and the AUC."""
    above = [read.is_repeated for read, score in zip(reads, scores, strict=True) if score > 0]
    share = f"{sum(above) / len(above):.0%}" if above else "–"
    cells = []
    for is_within in (False, True):
        known = zip(reads, scores, strict=True)
        cases = [Case(score, each.is_repeated, each.session, each.session * is_within) for each, score in known]
        cells.append(estimate(cases, auc))
    return f"{name:<24}{len(above):>9}{share:>9}  {cells[0]!s:<18}{cells[1]!s}".rstrip()


@dataclass(frozen=True)
class Use:
    """A cleared read at a request: the kinds of its atoms that the action used, and whether it was repeated before."""

    session: str
    request: int
    kinds: frozenset[Kind]
    is_repeated: bool


def uses(stretch: Stretch) -> Iterator[Use]:
    """Yield each cleared read at each request after its clearing at which some atom had lost its sources."""
    needed: dict[tuple[int, int], set[Kind]] = {}
    for number, need in stretch.lost:
        needed.setdefault((need.request, number), set()).add(need.atom.kind)
    for request in sorted({request for request, _ in needed}):
        for read in stretch.reads:
            since, again = stretch.cleared.get(read.number, inf), stretch.repeated_at(read)
            if since <= request and since <= again:
                kinds = frozenset(needed.get((request, read.number), ()))
                yield Use(stretch.session, request, kinds, again < request)


def use_table(stretches: Sequence[Stretch]) -> Iterator[str]:
    """Yield how often a cleared read had been repeated before an action used it, by the kind of atom that it used."""
    known = [each for stretch in stretches for each in uses(stretch)]
    unused = [each for each in known if not each.kinds]
    yield f"\n{'cleared read at a request':<27}{'count':>5}{'sessions':>9}  repeated before, ratio"
    yield use_row("no action used it", unused)
    yield use_row("an action used it", [each for each in known if each.kinds], unused)
    for kind in Kind:
        if part := [each for each in known if kind in each.kinds]:
            yield use_row(f"  {kind}", part, unused)


def use_row(name: str, known: Sequence[Use], unused: Sequence[Use] = ()) -> str:
    """The line of some uses: the share whose read had been repeated, over that of the unused at the same request."""
    compared = [
        Exposure(is_used, int(each.is_repeated), 1, each.session, (each.session, each.request))
        for is_used, part in ((True, known), (False, unused))
        for each in part
    ]
    share = sum(each.is_repeated for each in known) / max(1, len(known))
    sessions = len({each.session for each in known})
    ratio = estimate(compared, rate_ratio) if unused and share else ""
    return f"{name:<27}{len(known):>5}{sessions:>9}{share:>8.0%}  {ratio!s}".rstrip()


def main() -> None:
    """Print what the chosen test finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test", choices=("trials", "clearings"))
    parser.add_argument("clones", type=Path, help="a folder with a clone of each repository, at owner/name")
    given = parser.parse_args()
    for line in (report_trials if given.test == "trials" else report_clearings)(given.clones):
        print(line)


if __name__ == "__main__":
    main()
