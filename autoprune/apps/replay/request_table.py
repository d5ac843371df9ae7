"""The figures of each request as a Parquet file, which DuckDB, pandas and Polars read. Opens no file."""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any

from autoprune.apps.replay.session import SessionFigures
from autoprune.errors import SettingsError, how_to_install

# The type of each column. `cost` is in input tokens at the session's most frequent prices, `dollars` is null without
# known prices, and `reward` for all but trials of Harbor; strategy "none" is the session without pruning.
COLUMNS = {
    "session": "string",
    "project": "string",
    "agent": "string",
    "episode": "string",
    "reward": "float64",
    "strategy": "string",
    "style": "string",
    "request": "int32",
    "prompt_tokens": "int64",
    "cached_tokens": "int64",
    "cost": "float64",
    "dollars": "float64",
}


def parquet(sessions: Iterable[SessionFigures]) -> bytes:
    """Return a Parquet file with a row for each request under each strategy; `sessions` have figures of each request.

    Raises SettingsError if pyarrow is not installed.
    """
    check_installed()
    import pyarrow as pa
    import pyarrow.parquet

    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    sink = pa.BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(sink, schema) as writer:
        for each in sessions:
            writer.write_table(pa.Table.from_pylist([*request_rows(each)], schema))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def check_installed() -> None:
    """Raise SettingsError if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        raise SettingsError(f"a Parquet file needs pyarrow: {how_to_install('parquet')}")


def request_rows(found: SessionFigures) -> Iterator[dict[str, Any]]:
    """Yield a row for each request under each strategy, with the columns of `COLUMNS`."""
    for row in found.figures:
        price = next(iter(row.bills.values())).input_price
        for at, (prompt, held, cost) in enumerate(zip(row.prompts, row.held, row.costs, strict=True)):
            yield {
                "session": found.path,
                "project": row.project,
                "agent": found.agent,
                "episode": row.episode,
                "reward": found.reward,
                "strategy": row.strategy,
                "style": row.style,
                "request": at,
                "prompt_tokens": prompt,
                "cached_tokens": held,
                "cost": cost,
                "dollars": None if price is None else cost * price,
            }
