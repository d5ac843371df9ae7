"""Replayed sessions as one page of HTML, without scripts: `page` writes it. Opens no file."""

from autoprune.apps.replay.page._page import check_libraries, page

__all__ = ["check_libraries", "page"]
