"""Replay recorded sessions: what a setting would have cost, and which evidence it would have lost.

`replay_session(name, data, args)` returns the figures of a session file. The modules, in the order of the data:

    episode             the unit of a replay: a conversation without a compaction, its head, pauses and prices
    evidence            what each recorded action needed: the `atoms` of its calls (also `shell_edits`) and of
                        its statements, which earlier results showed them, and whether they stay `visible`
    choices             what can be replayed by name: strategies, baselines, and the `clairvoyant`
    play                runs a strategy at each recorded request as a live loop would, and checks the promises
    episode_figures     the bill and the evidence of one episode under one strategy
    rows                the figures of many episodes, with intervals; `verdict` and `tuning` build on them
    compaction_costs    what recorded compactions cost, and whether pruning would have prevented them
    session             one session file; `corpus` replays many in parallel, `detail` follows each result
    page                the report as an HTML file
"""

from autoprune.apps.replay.choices import BUILT_IN, Policy
from autoprune.apps.replay.episode_figures import Figures, Kept
from autoprune.apps.replay.rows import Interval, Row, summarize
from autoprune.apps.replay.session import FED_BACK, FULL, EpisodeShape, ReplayArgs, SessionFigures, replay_session

__all__ = [
    "BUILT_IN",
    "FED_BACK",
    "FULL",
    "EpisodeShape",
    "Figures",
    "Interval",
    "Kept",
    "Policy",
    "ReplayArgs",
    "Row",
    "SessionFigures",
    "replay_session",
    "summarize",
]
