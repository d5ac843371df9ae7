"""What the proxy's page and the report of a replay share: style, elements and charts, in CSS and JavaScript."""

from autoprune.apps.frontend._assets import asset, bundle

__all__ = ["asset", "bundle"]
