"""What the proxy's page and the report of a replay share: style, elements and charts, and how HTML is written."""

from autoprune.apps.frontend._assets import asset, bundle
from autoprune.apps.frontend._markup import Markup, clean, element, escaped, folded, joined, table

__all__ = ["Markup", "asset", "bundle", "clean", "element", "escaped", "folded", "joined", "table"]
