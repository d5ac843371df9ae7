"""The script of the model: it fixes a rounding bug in `fixtures/project`, after a wrong attempt."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A reply of the model: a text and its calls."""

    text: str
    calls: tuple[Call, ...] = ()


def _step(text: str, *calls: Call) -> Step:
    return Step(text, calls)


def _list() -> Call:
    return Call("list_files", {"path": "."})


def _read(path: str, start_line: int | None = None, end_line: int | None = None) -> Call:
    lines = {} if start_line is None else {"start_line": start_line, "end_line": end_line}
    return Call("read_file", {"path": path, **lines})


def _search(path: str, regex: str) -> Call:
    return Call("search_files", {"path": path, "regex": regex})


def _write(path: str, content: str) -> Call:
    return Call("write_to_file", {"path": path, "content": content})


def _replace(path: str, search: str, replace: str) -> Call:
    return Call("replace_in_file", {"path": path, "search": search, "replace": replace})


def _run(command: str) -> Call:
    return Call("execute_command", {"command": command})


def _tally(arguments: str) -> Call:
    return _run(f"python -m tally -f data/household.journal {arguments}")


TASK = """\
Converted balances are a cent off. `python -m tally -f data/household.journal balance Expenses:Travel --exchange EUR \
--on 2025-07-31` says 1,463.82 EUR; I convert the four sums by hand and get 1,463.81 EUR. One of the tests fails, \
probably for the same reason. Find the cause and fix it. Reports that do not convert must not change. \
Add a regression test with my figures.\
"""

TRAVEL = "balance Expenses:Travel --exchange EUR --on 2025-07-31"

BY_HAND = """\
python - <<'END'
from decimal import Decimal as D
sums = {"CHF": D("263.75"), "GBP": D("307.00"), "JPY": D("53415"), "USD": D("506.15")}
rates = {"CHF": D("1.0730"), "GBP": D("1.2271"), "JPY": D("0.006135"), "USD": D("0.9412")}
print(*(f"{name} {sums[name]} * {rates[name]} = {sums[name] * rates[name]}" for name in sums), sep="\n")
print("total", sum(sums[name] * rates[name] for name in sums))
END
"""

DRIFT = """\
python - <<'END'
from datetime import date
from tally import load
from tally.model import Query
journal = load("data/household.journal")
exact = drift = 0
for entry in journal.entries(Query(accounts=("Expenses:Travel",))):
    worth = journal.prices.convert(entry.amount, "EUR", date(2025, 7, 31))
    exact += worth.quantity
    drift += worth.rounded().quantity - worth.quantity
    print(f"{entry.day} {entry.payee:<26} {entry.amount!s:>14} {worth.quantity:>14} {worth!s:>12} {drift:>10}")
print("exact", exact, "rounded one by one", exact + drift)
END
"""

OLD_VALUE = """\
        worth = self.journal.prices.convert(entry.amount, self.exchange, self.on or entry.day)
        return worth.rounded()
"""
NEW_VALUE = """\
        return self.journal.prices.convert(entry.amount, self.exchange, self.on or entry.day)
"""
SETTLED_VALUE = """\
        return self.journal.prices.convert(entry.amount, self.exchange, self.on or entry.day)

    def settled(self, amounts: Balance) -> Balance:
        \"\"\"A sum of converted amounts, rounded once; what is as booked stays as it is.\"\"\"
        return amounts if self.exchange is None else amounts.rounded()
"""
OLD_ROWS = """\
    rows = [BalanceRow(name, _below(own, name), own.get(name, Balance())) for name in names]
    kept = tuple(row for row in rows if empty or row.balance)
    return BalanceReport(kept, _sum(own.values()))
"""
NEW_ROWS = """\
    settled = value.settled
    rows = [BalanceRow(name, settled(_below(own, name)), settled(own.get(name, Balance()))) for name in names]
    kept = tuple(row for row in rows if empty or row.balance)
    return BalanceReport(kept, settled(_sum(own.values())))
"""

REGRESSION_TEST = '''\
"""Converted sums are rounded once, at the end."""

import unittest
from datetime import date
from decimal import Decimal
from pathlib import Path

from tally.model import Query
from tally.money import Amount, Balance
from tally.parser import load, loads
from tally.reports import balance, income_statement, net_worth, register

HOUSEHOLD = Path(__file__).parent.parent / "data" / "household.journal"
TRAVEL = Query(accounts=("Expenses:Travel",))


def eur(text: str) -> Balance:
    return Balance.of(Amount(Decimal(text), "EUR"))


class RoundedOnceTest(unittest.TestCase):
    def test_the_household_that_was_a_cent_off(self):
        """263.75 CHF, 307.00 GBP, 53,415 JPY and 506.15 USD, converted by hand."""
        report = balance(load(HOUSEHOLD), TRAVEL, exchange="EUR", on=date(2025, 7, 31))
        self.assertEqual(report.total, eur("1463.81"))
        self.assertEqual(report.row("Expenses").balance, eur("1463.81"))

    def test_the_sum_converted_is_the_converted_sum(self):
        """Whichever comes first, for every account."""
        journal, day = load(HOUSEHOLD), date(2025, 7, 31)
        booked = balance(journal)
        for row in balance(journal, exchange="EUR", on=day, empty=True).rows:
            if any(row.account == one.account for one in booked.rows):
                worth = Balance.sum(journal.prices.convert(one, "EUR", day) for one in booked.row(row.account).balance)
                with self.subTest(account=row.account):
                    self.assertEqual(row.balance, worth.rounded())

    def test_a_register_ends_at_the_balance(self):
        """Its running total is the same sum."""
        journal = load(HOUSEHOLD)
        *_, last = register(journal, TRAVEL, exchange="EUR")
        self.assertEqual(last.running.rounded(), balance(journal, TRAVEL, exchange="EUR").total)

    def test_statements(self):
        """They are made of balances."""
        journal = load(HOUSEHOLD)
        self.assertEqual(net_worth(journal, date(2025, 7, 31), "EUR").net, eur("18371.82"))
        spent = income_statement(journal, date(2025, 3, 1), date(2025, 4, 1), "EUR").minus
        self.assertEqual(spent.total, spent.total.rounded())

    def test_what_is_not_converted_is_not_rounded(self):
        """Shares of a fund have more digits than money."""
        journal = loads("2025-01-01 Fund\\n    Assets:Fund  1.2345 ACME @ 81.00 EUR\\n    Assets:Checking\\n")
        held = balance(journal, Query(accounts=("Assets:Fund",))).total
        self.assertEqual(held, Balance.of(Amount(Decimal("1.2345"), "ACME")))


if __name__ == "__main__":
    unittest.main()
'''

OLD_NOTE = """\
Money is a `Decimal`, never a float. Amounts are exact until they are paid or shown; half a cent goes to the even
neighbor.
"""
NEW_NOTE = """\
Money is a `Decimal`, never a float. Amounts are exact until they are paid or shown; half a cent goes to the even
neighbor. A converted sum is rounded once, after it has been added up.
"""

STEPS = (
    _step("I begin with what is there.", _list()),
    _step("The README and the public names first.", _read("README.md"), _read("tally/__init__.py")),
    _step("Which test fails?", _run("python -m unittest -v")),
    _step("The failing test and the other tests of reports.", _read("tests/test_reports.py")),
    _step("Now the module that it tests.", _read("tally/reports.py")),
    _step("Conversion and rounding live in two more modules.", _read("tally/prices.py"), _read("tally/money.py")),
    _step("I reproduce the report of the user, and what is booked.", _tally(TRAVEL), _tally("balance Expenses:Travel")),
    _step(
        "How does the command hand the day down, and how are amounts read?",
        _read("tally/cli.py"),
        _read("tally/parser.py"),
    ),
    _step("The journal itself, to see the entries and the prices.", _read("data/household.journal")),
    _step("By hand, with the prices of July.", _search("data/household.journal", r"^P 2025-07"), _run(BY_HAND)),
    _step("The user is right: 1,463.81 EUR. Where is anything rounded?", _search("tally", r"round|ROUND|quantize")),
    _step(
        "Three coffees at 0.905: banker's rounding may be the cause. I try the other way.",
        _replace("tally/money.py", "ROUND_HALF_EVEN", "ROUND_HALF_UP"),
    ),
    _step(
        "It occurs twice, in the import and in its use; one by one.",
        _replace("tally/money.py", "ROUND_DOWN, ROUND_HALF_EVEN, Decimal", "ROUND_DOWN, ROUND_HALF_UP, Decimal"),
        _replace("tally/money.py", "rounding=ROUND_HALF_EVEN", "rounding=ROUND_HALF_UP"),
    ),
    _step("All tests again.", _run("python -m unittest -v")),
    _step(
        "Worse: three failures now, and the first one says that half to even is meant. I read that test.",
        _read("tests/test_money.py"),
    ),
    _step(
        "The mode of rounding is a decision, not the bug. I take my change back.",
        _replace("tally/money.py", "ROUND_DOWN, ROUND_HALF_UP, Decimal", "ROUND_DOWN, ROUND_HALF_EVEN, Decimal"),
        _replace("tally/money.py", "rounding=ROUND_HALF_UP", "rounding=ROUND_HALF_EVEN"),
    ),
    _step("Is rounding kept in a module of its own?", _read("tally/rounding.py")),
    _step("No. Then the entries: how does a report come by its amounts?", _read("tally/model.py")),
    _step("How an amount is converted, once more.", _read("tally/prices.py", 52, 94)),
    _step("It is exact there. I look at the drift, entry by entry.", _run(DRIFT)),
    _step(
        "That is it: each entry is rounded before it is added. The whole register, to see how far this goes.",
        _tally("register --exchange EUR --on 2025-07-31"),
    ),
    _step(
        "I take the early rounding out.",
        _replace("tally/reports.py", "return worth.rounded() if self.exchange else worth", "return worth"),
    ),
    _step("That is not what it says. I look again.", _read("tally/reports.py", 1, 45)),
    _step("Now with the text as it is.", _replace("tally/reports.py", OLD_VALUE, NEW_VALUE)),
    _step("Only the tests of reports.", _run("python -m unittest -v tests.test_reports")),
    _step(
        "Sums are exact now, but nobody rounds them any more. Where do balances come together?",
        _search("tally/reports.py", r"BalanceRow\(|BalanceReport\(|_sum\("),
        _read("tally/reports.py", 60, 115),
    ),
    _step(
        "A sum is to be rounded once, and only where it was converted: shares of a fund have more digits than money.",
        _replace("tally/reports.py", NEW_VALUE, SETTLED_VALUE),
        _replace("tally/reports.py", OLD_ROWS, NEW_ROWS),
    ),
    _step("The tests of reports again.", _run("python -m unittest -v tests.test_reports")),
    _step(
        "They pass. The report of the user, and the others that convert.",
        _tally(TRAVEL),
        _tally("worth --on 2025-07-31 --exchange EUR"),
        _tally("monthly Expenses --exchange EUR"),
    ),
    _step(
        "1,463.81 EUR, as by hand. For the regression test I look at how the tests here are written.",
        _read("tests/test_prices.py"),
        _read("tests/test_cli.py"),
    ),
    _step("A test of its own, with the figures of the user.", _write("tests/test_valuation.py", REGRESSION_TEST)),
    _step("Does it pass?", _run("python -m unittest -v tests.test_valuation")),
    _step(
        "The net worth was a guess of mine. What is it, and is the journal in order?",
        _tally("worth --on 2025-07-31 --exchange EUR"),
        _run("python -m tally -f data/houshold.journal check"),
    ),
    _step(
        "A typo in the name of the file. Once more, and the wallet's dollars by hand.",
        _tally("check --strict"),
        _search("data/household.journal", r"Assets:Wallet"),
    ),
    _step(
        "60 USD at 0.9412 are 56.47 EUR, and the report has them. My guess was a cent off.",
        _replace("tests/test_valuation.py", 'eur("18371.82")', 'eur("18371.81")'),
    ),
    _step("Every test, from the start.", _run("python -m unittest -v")),
    _step(
        "All pass. Do the reports that do not convert say what they said before?",
        _tally("balance Expenses:Travel"),
        _tally("register Assets:Checking --begin 2025-05"),
    ),
    _step(
        "Unchanged. The README names how rounding works; I read it and the module for the last time.",
        _read("README.md", 40, 65),
        _read("tally/reports.py"),
    ),
    _step("A sentence for the README.", _replace("README.md", OLD_NOTE, NEW_NOTE)),
    _step("Is there a change log to add to?", _read("../CHANGELOG.md"), _search(".", r"(?i)changelog")),
    _step(
        "There is none. What is in the folder now, and everything once more.",
        _list(),
        _run("python -m unittest"),
        _tally("check --strict"),
    ),
    _step("""\
Fixed. `Valuation` in `tally/reports.py` rounded each entry right after converting it, so a balance added up rounded \
amounts, and halves of a cent piled up. Entries are exact now, and a converted sum is rounded once, after it has been \
added up; reports that do not convert are as they were. Your report says 1,463.81 EUR. `tests/test_valuation.py` \
holds your figures, and all tests pass."""),
)
