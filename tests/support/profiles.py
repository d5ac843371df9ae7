"""The two profiles of the suite: quick, with few examples of each property, and full, with all of them.

`pytest` runs the quick profile in less than two minutes. `pytest --full` runs the full one, which includes the tests
that are marked `full` and the modules in `FULL_ONLY`.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings

# Modules that start servers, processes or browsers, replay long sessions, or test the test provider. Only the full
# profile runs them, unless the command names them; in the quick one other tests cover most of the code that they call.
FULL_ONLY = (
    "tests/cli/test_cli_files.py",
    "tests/cli/test_cli_recall.py",
    "tests/cli/test_cli_words.py",
    "tests/cli/test_each_client.py",
    "tests/cli/test_proxy.py",
    "tests/cli/test_replay.py",
    "tests/cli/test_run.py",
    "tests/cli/test_streams.py",
    "tests/cli/test_tune.py",
    "tests/e2e/",
    "tests/integrations/test_attached_clients.py",
    "tests/proxy/test_caches.py",
    "tests/proxy/test_compress.py",
    "tests/proxy/test_forwarding.py",
    "tests/proxy/test_lanes.py",
    "tests/proxy/test_limits.py",
    "tests/proxy/test_resuming.py",
    "tests/pruners/test_changing_settings.py",
    "tests/pruners/test_end_to_end.py",
    "tests/pruners/test_every_format_memo.py",
    "tests/pruners/test_every_request.py",
    "tests/pruners/test_fed_back.py",
    "tests/pruners/test_folded_steps.py",
    "tests/pruners/test_folding_end_to_end.py",
    "tests/pruners/test_foreign_marks.py",
    "tests/pruners/test_recall.py",
    "tests/pruners/test_words_in_summaries.py",
    "tests/replay/test_benchmarks.py",
    "tests/replay/test_corpus.py",
    "tests/replay/test_detail.py",
    "tests/replay/test_figures.py",
    "tests/replay/test_page.py",
    "tests/replay/test_recorded_compactions.py",
    "tests/replay/test_tuning.py",
    "tests/replay/test_verdict.py",
    "tests/requests/test_cache_marks.py",
    "tests/strategies/test_per_result.py",
    "tests/strategies/test_results_in_use.py",
    "tests/strategies/test_strategy_files.py",
    "tests/summarizers/test_deadlines.py",
    "tests/summarizers/test_first_request.py",
    "tests/test_edit_loop.py",
    "tests/test_examples.py",
    "tests/wire/test_every_format_agrees.py",
    "tests/wire/test_native_formats.py",
    "tests/wire/test_standing.py",
    "tests/wire/test_strict_provider.py",
    "tests/wire/test_strict_provider_anthropic.py",
    "tests/wire/test_strict_provider_bedrock.py",
    "tests/wire/test_strict_provider_gemini.py",
    "tests/wire/test_strict_provider_openai.py",
    "tests/wire/test_strict_provider_streaming.py",
)
Case = TypeVar("Case")
MOST = 4  # examples of a property in the quick profile
_ANYWAY = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
_DRAWN = [Phase.explicit, Phase.generate]  # no shrinking, which may take minutes
settings.register_profile("quick", max_examples=MOST, derandomize=True, database=None, phases=_DRAWN, **_ANYWAY)
settings.register_profile("full", max_examples=60, derandomize=True, database=None, **_ANYWAY)

_chosen = "quick"


def choose(profile: str) -> None:
    """Use a profile for all tests that are imported later."""
    global _chosen
    _chosen = profile
    settings.load_profile(profile)


def is_full() -> bool:
    return _chosen == "full"


def share(number: int) -> int:
    """The number of examples that the profile tries: all, or an eighth and at most four in quick."""
    return number if is_full() else min(MOST, -(-number // 8))


def sample_cases(cases: Iterable[Case], step: int = 7) -> list[Case]:
    """The cases that the profile tries: all, or only one of each `step` in quick.

    Choose a step that shares no factor with the lengths of the lists that a product combines, so that the sample has
    each of their values.
    """
    return [*cases][:: 1 if is_full() else step]


def size(number: int) -> int:
    """The size of a large input or the length of a long run: the number in full, half of it in quick."""
    return number if is_full() else number // 2


def examples(number: int, other: settings | None = None, **more: Any) -> settings:
    """The settings of a property with this number of examples in full, based on `other` settings if given."""
    return settings(other, max_examples=share(number), **more)
