"""How well a session's fitted sizes predict the growth of recorded prompts that the fit has not seen.

    python benchmarks/sizes.py FOLDER

Each fifth growth of a session, from one recorded prompt to the next, is held out; the ratios are fitted to the others.
A growth counts for the kind of message that makes 70 % of its estimate: results and the user's words, the model's
output by its recorded tokens, or the model's output if only its text is known. The table has the number of growths, the
sum of the estimates by that of the growths, the median of the relative errors and that of their absolute values. Below
are the median ratios of each model with at least three sessions: the provider's tokens for each token that we count,
and for each recorded token of output.
"""

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from autoprune.apps.replay.session import ReplayArgs, episodes
from autoprune.apps.replay.sizes import Growth, Ratios, fit_ratios, growths
from autoprune.errors import AutopruneError

HELD_OUT = 5  # one growth of five
DOMINANT = 0.7  # share of a growth's estimate


def main(folder: Path) -> None:
    """Print both tables."""
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    ratios: dict[str, list[Ratios]] = defaultdict(list)
    for file in sorted(folder.rglob("*.json*")):
        try:
            known = list(episodes(str(file), file.read_bytes(), ReplayArgs()))
        except AutopruneError:
            continue
        for recording, episode in known:
            grown = [each for each in growths(recording.requests, episode.transcript.entries) if each.tokens > 0]
            model = next((each.model for each in recording.requests if each.model), None)
            fitted = fit_ratios((each for at, each in enumerate(grown) if at % HELD_OUT != HELD_OUT - 1), model)
            ratios[model or "unknown"].append(fitted)
            for growth in grown[HELD_OUT - 1 :: HELD_OUT]:
                errors[kind(growth, fitted)].append((fitted.estimate(growth), growth.tokens))
                errors["all"].append((fitted.estimate(growth), growth.tokens))
    print(f"{'growth by':28} {'n':>6} {'sum':>6} {'bias':>7} {'error':>6}")
    for name, pairs in errors.items():
        total = sum(estimate for estimate, _ in pairs) / sum(grown for _, grown in pairs)
        relative = [estimate / grown - 1 for estimate, grown in pairs]
        print(f"{name:28} {len(pairs):6,} {total:6.3f} {median(relative):+7.1%} {median(map(abs, relative)):6.1%}")
    print(f"\n{'model':28} {'n':>6} {'text':>6} {'output':>7}")
    for model, fits in sorted(ratios.items()):
        if len(fits) >= 3:
            text, output = median(each.text for each in fits), median(each.output for each in fits)
            print(f"{model:28} {len(fits):6,} {text:6.2f} {output:7.2f}")


def kind(growth: Growth, fitted: Ratios) -> str:
    """Return the kind of message that most of a growth consists of."""
    text = fitted.text * growth.text
    answer = fitted.answer_size(growth.answer, growth.output)
    if text >= DOMINANT * (text + answer):
        return "results and words"
    if answer < DOMINANT * (text + answer):
        return "both"
    return "output" if growth.output is not None else "output, of which text is known"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
