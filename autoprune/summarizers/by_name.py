"""The summarizers that `--summarizer` can name. To ship one of your own, add a line to the table."""

from collections.abc import Callable, Mapping

from autoprune.errors import SettingsError
from autoprune.summarizers.brief import Summarizer
from autoprune.summarizers.openai.summarizer import from_environment


def _openai(model: str | None) -> Summarizer:
    if model is None:
        raise SettingsError("the summarizer openai needs a model: --model gpt-5-mini")
    return from_environment(model)


# From a name to the function that makes the summarizer for the model of `--model`.
SUMMARIZERS: Mapping[str, Callable[[str | None], Summarizer | None]] = {
    "digest": lambda model: None,  # what a pruner uses that is given none
    "openai": _openai,
}
