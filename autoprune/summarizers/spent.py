"""What it took to write the texts of a prune."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """Calls of a model, their tokens and dollars, texts that were found in the store, and notes on what went wrong."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    found: int = 0
    notes: tuple[str, ...] = ()

    def __add__(self, other: "Spent") -> "Spent":
        """Return the sum; a cost that is not known counts as none."""
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Spent(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            self.found + other.found,
            (*self.notes, *other.notes),
        )


NOTHING = Spent()
