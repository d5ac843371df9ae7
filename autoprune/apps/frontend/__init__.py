"""What the proxy's page and the report of a replay share: style, elements and charts, and how HTML is written."""

from autoprune.apps.frontend._assets import asset, bundle
from autoprune.apps.frontend._markup import Markup, clean, collapsible, concatenate, element, escape_text, table

__all__ = ["Markup", "asset", "bundle", "clean", "collapsible", "concatenate", "element", "escape_text", "table"]
