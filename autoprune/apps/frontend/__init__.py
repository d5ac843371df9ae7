"""The shared front end of the proxy's page and the replay report: style, elements, charts, and HTML escaping."""

from autoprune.apps.frontend._markup import (
    Markup,
    asset,
    bundle,
    clean,
    collapsible,
    concatenate,
    element,
    escape_text,
    table,
)

__all__ = ["Markup", "asset", "bundle", "clean", "collapsible", "concatenate", "element", "escape_text", "table"]
