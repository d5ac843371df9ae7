"""What a setting would have cost on recorded sessions, and what it would have lost.

`replay_session(name, data, args)` returns the figures of a session file. The way of the data:

    episode     what is replayed: a conversation without a compaction, its head, its pauses, its prices
    evidence    what each recorded action needed: the `atoms` of its calls (also `shell_edits`), `statements` and
                `values` in its words, where earlier results showed them, and whether they stay `visible`
    policies    what can be replayed by name: strategies, references, and the `clairvoyant`
    play        asks a strategy at each recorded request as in a live loop, and checks the promises (`laws`)
    figures     the bill and the evidence of one episode under one strategy
    rows        the figures of many episodes, with intervals; from them a `verdict` and a `tuning`
    session     a session file; `corpus` many of them, with `engines` that work in parallel; `detail` each result
    page        all of it as an HTML file
"""

from autoprune.apps.replay.figures import Figures, Kept
from autoprune.apps.replay.policies import BUILT_IN, Policy
from autoprune.apps.replay.rows import Interval, Row, summarize
from autoprune.apps.replay.session import FED_BACK, FULL, ReplayArgs, SessionFigures, Shape, replay_session

__all__ = [
    "BUILT_IN",
    "FED_BACK",
    "FULL",
    "Figures",
    "Interval",
    "Kept",
    "Policy",
    "ReplayArgs",
    "Row",
    "SessionFigures",
    "Shape",
    "replay_session",
    "summarize",
]
