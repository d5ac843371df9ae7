"""Replayed sessions as one page of HTML, without scripts: `page` writes it. Opens no file."""

from autoprune.replay.page._page import page

__all__ = ["page"]
