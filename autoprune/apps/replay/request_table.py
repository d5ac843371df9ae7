"""The figures of each request as a Parquet file, which DuckDB, pandas and Polars read. Opens no file."""

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec

from autoprune.apps.replay.episode_figures import Figures
from autoprune.apps.replay.session import SessionFigures
from autoprune.errors import SettingsError, how_to_install

# The type of each column, and its value from a session, the figures of a strategy and the number of a request. `cost`
# is in input tokens at the session's most frequent prices, `dollars` is null without known prices, and `reward` for all
# but trials of Harbor; strategy "none" is the session without pruning.
COLUMNS: Mapping[str, tuple[str, Callable[[SessionFigures, Figures, int], object]]] = {
    "session": ("string", lambda session, row, at: session.path),
    "project": ("string", lambda session, row, at: row.project),
    "agent": ("string", lambda session, row, at: session.agent),
    "episode": ("string", lambda session, row, at: row.episode),
    "reward": ("float64", lambda session, row, at: session.reward),
    "strategy": ("string", lambda session, row, at: row.strategy),
    "style": ("string", lambda session, row, at: row.style),
    "request": ("int32", lambda session, row, at: at),
    "prompt_tokens": ("int64", lambda session, row, at: row.prompts[at]),
    "cached_tokens": ("int64", lambda session, row, at: row.held[at]),
    "cost": ("float64", lambda session, row, at: row.costs[at]),
    "dollars": ("float64", lambda session, row, at: _dollars(row, at)),
}


def parquet(sessions: Iterable[SessionFigures]) -> bytes:
    """Return a Parquet file with a row for each request under each strategy, if `sessions` have figures of each."""
    import pyarrow as pa
    import pyarrow.parquet

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, (kind, _) in COLUMNS.items()])
    sink = pa.BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(sink, schema) as writer:
        for each in sessions:
            rows = [
                {name: value(each, row, at) for name, (_, value) in COLUMNS.items()}
                for row in each.figures
                for at in range(len(row.prompts))
            ]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def check_installed() -> None:
    """Raise SettingsError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise SettingsError(f"a Parquet file needs pyarrow: {how_to_install('parquet')}")


def _dollars(row: Figures, at: int) -> float | None:
    price = next(iter(row.bills.values())).input_price
    return None if price is None else row.costs[at] * price
