"""The strategies of `ConversationPruner` that ship: what makes each, by name."""

from autoprune.strategies.catalog import FOLDING, makers

PRESETS = makers(FOLDING)
