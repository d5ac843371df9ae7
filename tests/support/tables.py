"""Tables of cases: one test item that tries every row and names each row that fails."""

import inspect
import reprlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

_PARAM = type(pytest.param())
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def each_row(
    names: str | Sequence[str],
    rows: Iterable[Any],
    *,
    ids: Iterable[str] | Callable[[Any], str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test on every row of a table, as `pytest.mark.parametrize` would, but as one item.

    A row that fails does not end the test: the rows after it are tried, and the test fails with all failures, each
    with a note that shows its row. A test of which a row is skipped is shown as skipped, and a table without rows is an
    error. `monkeypatch` is undone after a row, `tmp_path` is a folder of the row's own, and
    `capsys` begins empty. A fixture that cannot begin anew at a row wants `pytest.mark.parametrize`.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_values(row, len(columns)) for row in rows]
    assert table, f"a table of {names} without a row"
    labels = _labels(table, ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def try_every_row(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            skipped: list[BaseException] = []
            for number, (row, label) in enumerate(zip(table, labels, strict=True)):
                named = dict(zip(columns, row, strict=True))
                try:
                    with ExitStack() as stack:
                        test(**_anew(fixtures, number, stack), **named)
                except pytest.skip.Exception as skip:
                    skipped.append(skip)
                except (Exception, pytest.fail.Exception) as failure:
                    shown = label or ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in named.items())
                    failure.add_note(f"row {number}: {shown}")
                    failures.append(failure)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows fail", failures)
            if skipped:
                raise skipped[0]

        return _dressed_as(test, try_every_row, without=columns)

    return decorate


def _values(row: Any, count: int) -> tuple[Any, ...]:
    if isinstance(row, _PARAM):
        assert not row.marks, "a row of a table has no marks"
        return tuple(row.values)
    values = (row,) if count == 1 else tuple(row)
    assert len(values) == count, f"a row of {len(values)} values for {count} names: {_SHORT.repr(row)}"
    return values


def _labels(table: list[tuple[Any, ...]], ids: Iterable[str] | Callable[[Any], str] | None) -> list[str]:
    if ids is None:
        return [""] * len(table)
    if callable(ids):
        return ["-".join(str(ids(value)) for value in row) for row in table]
    return [str(label) for label in ids]


def _anew(fixtures: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    """Return the fixtures as they are before any row."""
    found = dict(fixtures)
    if "monkeypatch" in found:
        found["monkeypatch"] = stack.enter_context(found["monkeypatch"].context())
    if "tmp_path" in found:
        folder: Path = found["tmp_path"] / str(number)
        folder.mkdir(exist_ok=True)
        found["tmp_path"] = folder
    for name in {"capsys", "capfd"} & found.keys():
        found[name].readouterr()
    return found


def _dressed_as(test: Callable[..., None], made: Callable[..., None], *, without: list[str]) -> Callable[..., None]:
    """Give a function the name, the marks and the parameters of a test, without those of the table."""
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(made, name, getattr(test, name))
    if hasattr(test, "pytestmark"):
        made.pytestmark = list(test.pytestmark)  # type: ignore[attr-defined]
    signature = inspect.signature(test)
    missing = [name for name in without if name not in signature.parameters]
    assert not missing, f"{test.__name__} takes no {missing}"
    kept = [each for name, each in signature.parameters.items() if name not in without]
    made.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return made
