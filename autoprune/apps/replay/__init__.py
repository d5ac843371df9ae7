"""What a setting would have cost on recorded sessions, and what it would have lost.

session     a session file: `replay_session(name, data, args)` gives `SessionFigures`
episode     what is replayed: a conversation without a compaction, its head and its pauses
play        a strategy, asked at each recorded request as in a live loop: a `Run`
evidence    what each recorded action rested on: `atoms` of its calls (edits by shell too: `shell_edits`), what it has
            `stated` (with `values`), where these stood, and whether they stay `visible`
protected   what should stay in view whatever the next action rests on
bill        what a run costs at some prices
laws        whether the promises held
figures, summary    a row for an episode and a strategy; rows of many episodes together
policies    what may be replayed by name: strategies, `references` and the `clairvoyant`
"""

from autoprune.apps.replay.bootstrap import Interval
from autoprune.apps.replay.figures import Figures, Kept
from autoprune.apps.replay.policies import BUILT_IN, Policy
from autoprune.apps.replay.session import FED_BACK, FULL, ReplayArgs, SessionFigures, Shape, replay_session
from autoprune.apps.replay.summary import Row, summarize

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
