"""The output of the command line: one line per result on 80 columns, with names as a user types them."""

import json
import re
from pathlib import Path

import pytest
from command_line import OPENAI, XML, number, run
from pages import ROOT
from rich.cells import cell_len
from rich.console import Console
from shipped import PRESETS
from tables import each_row
from typer.main import get_command

from autoprune import AgenticConversationPruner, ConversationPruner, PruneArgs
from autoprune.apps.cli.command_table import app
from autoprune.pruners.naming import choose_strategy, parameter_name, strategy_text
from autoprune.pruners.report.drawing import Explanation
from autoprune.strategies.catalog import STRATEGIES

NARROW = {"COLUMNS": "80"}


def explained(messages: list[object], strategy: str | None = None, *, width: int = 80, safe_zone: int = 2_500) -> str:
    """The output of --explain on a terminal."""
    maker = ConversationPruner if strategy in PRESETS else AgenticConversationPruner
    report = maker(PruneArgs(safe_zone)).prune(messages, strategy).report
    console = Console(width=width, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(Explanation(report))
    return captured.get()


def conversation(*calls: tuple[str, dict[str, object], str]) -> list[object]:
    """A conversation of these calls (tool and arguments) and results."""
    messages: list[object] = [{"role": "user", "content": "Find the fault."}]
    for at, (tool, arguments, text) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": f"c{at}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{at}", "content": text})
    return [*messages, {"role": "assistant", "content": "Found."}, {"role": "user", "content": "Mend it."}]


LONG_PATH = "/home/somebody/projects/a-very-long-name/src/package/module/" + "deeper/" * 9 + "the_file_itself.py"
LARGE = "a word " * 400
CALLS = [
    ("Read", {"path": "b.py"}, LARGE),
    ("Read", {"path": "b.py"}, LARGE),
    ("Read", {"path": "b.py"}, LARGE),
    ("read_file", {"path": LONG_PATH}, LARGE),
    ("Bash", {"command": "git log --oneline " + "--follow " * 20 + "-- README.md"}, LARGE),
    ("mcp__a_server_with_a_long_name__and_a_tool_with_one", {"path": "a.py"}, LARGE),
    ("Bash", {"command": "echo 你好世界 " * 20}, LARGE),
    ("Read", {"path": "c.py"}, "x"),
]


@each_row("width", [80, 100, 140])
@each_row("strategy", [None, "low_water", "hybrid", "truncate", "keep_last"])
def test_each_result_is_one_line_at_any_width(width: int, strategy: str | None):
    lines = explained(conversation(*CALLS), strategy, width=width).rstrip("\n").split("\n")
    results = lines[next(at for at, line in enumerate(lines) if line.startswith("message ")) + 1 :]
    results = results[: results.index("")]
    assert len(CALLS) - 2 <= len(results) <= len(CALLS)
    states = re.compile(r"\d\S* .*(?:kept|cleared|dropped|summed up) +[a-z][a-z ]*$")
    assert all(states.match(line.strip()) for line in results)
    assert all(cell_len(line) <= width for line in lines)


def test_on_80_columns_a_long_path_keeps_its_end_and_a_command_both_ends():
    lines = explained(conversation(*CALLS)).splitlines()
    (path,) = (line for line in lines if " read_file " in line)
    (command,) = (line for line in lines if "git log" in line)
    assert re.search(r" read_file +…\S*/the_file_itself\.py ", path)
    assert re.search(r"git log.*….*README\.md ", command)


def test_consecutive_equal_rows_are_one_line_with_their_count_and_sum():
    lines = explained(conversation(*CALLS)).splitlines()
    (reads,) = (line for line in lines if "Read ×3" in line)
    (one,) = (line for line in lines if " read_file " in line)
    tokens = int(re.search(r"([\d,]+) → ", one)[1].replace(",", ""))
    assert reads.split()[0] == "2–6"
    assert f"{3 * tokens:,} → " in reads


def test_an_explanation_without_results_is_a_header():
    assert explained([{"role": "user", "content": "hi"}]).split() == [
        "message",
        "turn",
        "tool",
        "target",
        "tokens",
        "why",
    ]


@pytest.mark.parametrize("session", [XML, OPENAI])
def test_explain_fits_the_terminal(session: str):
    done = run("prune", session, "--safe-zone", "20k", "--strategy", "hybrid", "--explain", environ=NARROW)
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    results = lines[lines.index("") + 2 :]
    assert number(results[: results.index("")]) == 60


# Strategies as they are typed


def test_the_list_of_strategies_fits_eighty_columns():
    lines = run("strategies", environ=NARROW).stdout.decode().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80


@each_row("name", sorted(STRATEGIES))
def test_a_strategy_with_its_printed_defaults_is_the_same_strategy(name: str):
    assert choose_strategy(strategy_text(name), {}) == choose_strategy(name, {})


@each_row(
    ("name", "field", "said"),
    [
        ("keep_last", "over_messages", "n"),
        ("chat_summary", "over_messages", "trigger"),
        ("chat_summary", "keep", "keep"),
        ("snapshot", "over_messages", "messages"),
        ("sliding_window", "over_messages", "n"),
        ("hybrid", "group_size", "group_size"),
        ("hybrid", "summary_tokens", "summary_tokens"),
        ("mine", "field", "field"),
    ],
)
def test_errors_name_the_parameter_that_sets_a_field(name: str, field: str, said: str):
    assert parameter_name(name, field) == said


# Words


@each_row(
    ("arguments", "said"),
    [
        (
            ("--strategy", "low-water"),
            "there is no strategy 'low-water' (did you mean low_water?); `autoprune strategies`",
        ),
        (("--strategy", "low_water(traget=1)"), "(did you mean target?); low_water has the parameters: target=0.75"),
        (("--strategy", "low_water("), "cannot be read: write it as low_water(target=0.75, minimum_reclaim=0.1)"),
        (("-s", "hybrid"), "the safe zone is 'hybrid': a strategy is given with --strategy"),
        (("-s", "0.5"), "needs a model: name the model, or give the window by hand (--window 200000)"),
        (("--strategy", "low_water(target=2)"), "autoprune: low_water: target is 2: give a share of the safe zone"),
        (("--overhead", "-5"), "Invalid value for '--overhead': '-5' is no number of tokens: give 0 or more"),
        (("--overhead", "1.5"), "Invalid value for '--overhead': '1.5' is no number of tokens: give 0 or more"),
        (("--strategy", "keep_last(n=-1)"), "keep_last: n is -1: give"),
        (("--safe-zome", "5k"), "No such option: --safe-zome"),
    ],
)
def test_errors_name_options_as_they_are_typed(arguments: tuple[str, ...], said: str):
    done = run("prune", OPENAI, *arguments, environ=NARROW)
    assert (done.returncode, said in " ".join(done.stderr.decode().split())) == (2, True), done.stderr.decode()
    assert b"PruneArgs" not in done.stderr


@each_row(
    ("command", "option"),
    [
        (name, option.opts[-1])
        for name, command in get_command(app).commands.items()
        for option in command.params
        if option.param_type_name == "option" and not option.is_flag
    ],
)
def test_an_empty_option_value_is_an_error(command: str, option: str, tmp_path: Path):
    arguments = [each for each in get_command(app).commands[command].params if each.param_type_name == "argument"]
    needed = ["claude" if command in ("run", "doctor") else XML for each in arguments if each.required]
    done = run(command, option, "", *needed, folder=tmp_path)
    words = done.stderr.decode()
    assert (done.returncode, done.stdout, [*tmp_path.iterdir()]) == (2, b"", [])
    assert option in words or words.startswith("autoprune: the safe zone is '': write it as 51200"), words


def test_notes_name_settings():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "read", "input": {}} for n in (1, 2)]
    results = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": LARGE} for n in (1, 2)]
    messages = [{"role": "user", "content": "go"}]
    for call, result in zip(calls, results, strict=True):
        messages += [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result]}]
    done = run("prune", "-", "-s", "900", "--dry-run", stdin=json.dumps(messages).encode())
    assert "see thinking_policy" in " ".join(done.stderr.decode().split())


# Help


COMMANDS = sorted(get_command(app).commands)


@each_row("command", [(), *((name,) for name in COMMANDS)])
def test_help_fits_80_columns_and_ends_with_examples(command: tuple[str, ...]):
    short, long = (run(*command, flag, environ=NARROW) for flag in ("-h", "--help"))
    words = short.stdout.decode()
    assert (short.returncode, words) == (0, long.stdout.decode())
    assert re.findall("<(bool|str|list.*)>", words) == []
    assert max(map(len, words.splitlines())) <= 80
    assert "\n    autoprune " in words[words.index("Examples:") :]


def test_the_page_on_the_command_line_has_a_row_for_each_command():
    page = ROOT.joinpath("docs", "command_line.md").read_text(encoding="utf-8")
    table = page.partition("| command | what it does |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == COMMANDS


def test_safe_zone_has_a_short_option():
    assert run("prune", XML, "-s", "20k").stdout == run("prune", XML, "--safe-zone", "20k").stdout
