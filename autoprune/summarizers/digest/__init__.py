"""A summary that needs no model; `Digest` is its door."""

from autoprune.summarizers.digest.digest import Digest

__all__ = ["Digest"]
