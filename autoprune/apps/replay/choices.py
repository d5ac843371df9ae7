"""The policies that can be replayed by name: shipped strategies, a strategy in a file, and baselines."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from autoprune.apps.policies import ContextPolicy, PolicyPrompts
from autoprune.apps.replay.clairvoyant import clairvoyant
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import MessageSizes
from autoprune.apps.replay.sizes import WithThinking
from autoprune.conversation.edits import Replace
from autoprune.economics import Prices
from autoprune.errors import SettingsError, near_or_all, type_of
from autoprune.planning.view import View
from autoprune.pruners.naming import choose_strategy, pruner_for
from autoprune.settings.plugins import load_plugin, plugin_names
from autoprune.settings.values import PruneArgs, budget_tokens, parse_number
from autoprune.strategies.catalog import RUN_STRATEGY, STRATEGIES, is_named, make_strategy
from autoprune.strategies.clearing import ObservationMasking
from autoprune.strategies.files import is_in_file, make_in_file
from autoprune.tokens import exact
from autoprune.wire import SHIPPED

NO_PRUNING = "none"  # the baseline


@dataclass(frozen=True)
class NoPruning:
    """The baseline: no pruning."""

    name = NO_PRUNING

    def step(self, view: View) -> list[Replace]:
        """Plan no edits."""
        return []


# Baselines that can be replayed, but not used live.
BASELINES: Mapping[str, Callable[..., Any]] = {
    NO_PRUNING: NoPruning,
    "window": lambda keep=20: ObservationMasking(keep),
    "polling": lambda keep=20, polling=20: ObservationMasking(keep, polling),
    "keep_newest": lambda keep=3: ObservationMasking(keep, every_request=False),
}
AT = "@"  # before a policy's own safe zone
# A strategy and perhaps its safe zone. An @ in a path or in a parameter is not followed by a safe zone.
WITH_ZONE = re.compile(rf"(?P<name>.*?)(?:{AT}(?P<zone>[^{AT}()'\"/:]*))?", re.DOTALL)
CLAIRVOYANTS: Mapping[str, Callable[[Episode, Prices], Any]] = {"clairvoyant": clairvoyant}  # know the later actions
PLUGINS = "autoprune.context_policies"  # the entry point group of policies in installed packages
NAMES = (*BASELINES, *CLAIRVOYANTS, *STRATEGIES)  # without those
BUILT_IN = (
    NO_PRUNING,
    RUN_STRATEGY,
    f"{RUN_STRATEGY} @ 80k",
    "cache_aware",
    "low_water",
    "tool_output_cleanup",
    "window",
    "polling",
    "keep_newest",
    *CLAIRVOYANTS,
)


@dataclass(frozen=True)
class Policy:
    """A strategy as the user types it, created for each episode. "low_water @ 60k" has its own safe zone."""

    text: str

    def __post_init__(self) -> None:
        """Raise SettingsError if the strategy does not exist, cannot have its parameters, or if the text names none."""
        if not self.name:
            raise SettingsError(f"{self.text!r} names no strategy; there are {', '.join(_all_names())}")
        if not self.is_clairvoyant:
            check = getattr(self.strategy(), "check_parameters", None)
            if callable(check):
                check()
        if isinstance(parse_number(self.zone), float):
            raise SettingsError(
                f"{self.text!r}: a safe zone after {AT} is in tokens, such as 60k; without one, "
                "it is the window of each session's model without room for the reply"
            )
        if self.zone:
            budget_tokens(self.zone)

    @property
    def name(self) -> str:
        """The strategy without its safe zone."""
        return self._match("name")

    @property
    def zone(self) -> str:
        """The policy's own safe zone; "" if it has none."""
        return self._match("zone")

    def _match(self, name: str) -> str:
        match = WITH_ZONE.fullmatch(self.text)
        return ((match and match[name]) or "").strip()

    @property
    def is_clairvoyant(self) -> bool:
        """Whether the strategy knows later actions."""
        return _clairvoyant(self.name) is not None

    @property
    def is_baseline(self) -> bool:
        """Whether the strategy is only a baseline that cannot be used live."""
        return self.is_clairvoyant or self.is_published or is_named(self.name, BASELINES)

    @property
    def is_published(self) -> bool:
        """Whether this is a context policy of another tool, which makes none of our promises. Runs its file."""
        is_plugin = not self.is_clairvoyant and is_named(self.name, plugin_names(PLUGINS))
        return is_plugin or (is_in_file(self.name) and callable(getattr(make_in_file(self.name), "changes", None)))

    @property
    def uses_prices(self) -> bool:
        """Whether the strategy decides by prices and has none of its own."""
        if self.is_clairvoyant:
            return True
        return not self.is_published and callable(getattr(self.strategy(), "for_prices", None))

    def for_episode(self, episode: Episode, prices: Prices) -> tuple[Any, Callable[[], Any]]:
        """Create the strategy, and a factory of pruners for it with the episode's safe zone and head."""
        if self.is_published:
            new_policy = self.strategy()
            return NoPruning(), lambda: _prompts(new_policy(), episode)
        if new_clairvoyant := _clairvoyant(self.name):
            strategy = new_clairvoyant(episode, prices)
        else:
            strategy = self.strategy()
            if callable(adapt := getattr(strategy, "for_prices", None)):  # it uses prices, but has none
                strategy = adapt(prices.in_counted_tokens(episode.ratio))
        args = PruneArgs(self.zone or episode.safe_zone, overhead_tokens=episode.head, compact_at=episode.compact_at)
        formats = [WithThinking(each, episode.hidden) for each in SHIPPED]

        def new_pruner() -> Any:
            pruner = pruner_for(strategy, args)
            pruner.formats = formats
            return pruner

        return strategy, new_pruner

    def strategy(self) -> Any:
        """Create the strategy. Raises SettingsError if no strategy has the policy's name, and for clairvoyants."""
        if self.is_published:
            new = partial(make_in_file if is_in_file(self.name) else _make_plugin, self.name)
            new()  # raises for wrong parameters
            return new
        if is_named(self.name, BASELINES):
            return make_strategy(self.name, BASELINES)
        try:
            return choose_strategy(self.name, os.environ)
        except SettingsError as error:
            if is_in_file(self.name):
                raise SettingsError(f"{error}; a context policy needs a method changes(request)") from error
            name = self.name.partition("(")[0]
            if name in NAMES or "/" in name:
                raise
            hint = "" if plugin_names(PLUGINS) else "; policies of other tools: pip install ./benchmarks/prunebench"
            raise SettingsError(f"there is no strategy {name!r}{near_or_all(name, _all_names())}{hint}") from error


def _clairvoyant(name: str) -> Callable[[Episode, Prices], Any] | None:
    """Return the function that makes a strategy which knows an episode; None for the names of other strategies.

    Of installed packages these are objects with `for_episode`.
    """
    if name in CLAIRVOYANTS or name not in plugin_names(PLUGINS):
        return CLAIRVOYANTS.get(name)
    return getattr(load_plugin(PLUGINS, name), "for_episode", None)


def _all_names() -> tuple[str, ...]:
    return (*NAMES, *plugin_names(PLUGINS))


def _make_plugin(text: str) -> Any:
    """Make the context policy of an installed package. Raises SettingsError for wrong parameters."""
    name = text.partition("(")[0].strip()
    new: Any = load_plugin(PLUGINS, name)
    if not callable(new):
        raise SettingsError(f"the plugin {name!r} under {PLUGINS} is {type_of(new)}: it must make a policy")
    return make_strategy(text, {name: new})


def _prompts(policy: ContextPolicy, episode: Episode) -> PolicyPrompts:
    """Prepare to send what a published policy decides in an episode."""
    sizes = MessageSizes(episode, exact())
    return PolicyPrompts(
        policy,
        episode.with_inputs,
        episode.requests,
        head=episode.head,
        window=episode.window,
        pauses=episode.pauses,
        count_message=lambda message: round(sizes.size(message) / episode.ratio),
    )
