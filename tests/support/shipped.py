"""The strategies of `ConversationPruner` that ship: what makes each, by name."""

from autoprune.strategies.by_name import FOLDING, makers

PRESETS = makers(FOLDING)
