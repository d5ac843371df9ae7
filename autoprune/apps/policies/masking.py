"""Observation masking as in "The Complexity Trap": keep the newest M results, and replace all older ones."""

from autoprune.apps.policies._policy import Changes, ContextPolicy, Published, RequestView

TEXT = "Previous {lines} lines omitted for brevity."


class ComplexityTrapMasking:
    """Replace every result but the newest `keep` at each request."""

    def __init__(self, keep: int = 10) -> None:
        """Keep the newest `keep` results."""
        self._keep = keep

    def changes(self, request: RequestView) -> Changes:
        """Replace all results before the newest `keep`."""
        old = request.results[: -self._keep or None]
        return Changes({result: TEXT.format(lines=len(result.text.splitlines())) for result in old})


_POLICY: type[ContextPolicy] = ComplexityTrapMasking
PUBLISHED = (
    Published(
        name="complexity_trap",
        new=ComplexityTrapMasking,
        tool="The Complexity Trap",
        source="to be filled in",
        decides="At each request, all tool results but the newest M are replaced by one line.",
        defaults="M = 10",
        left_out="",
        idle="With M results or fewer.",
        unchecked="to be done",
    ),
)
