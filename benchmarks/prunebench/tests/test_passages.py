"""What is left of results if a strategy knows what is needed later, and may shorten them."""

from autoprune import AgenticConversationPruner
from autoprune.apps.replay.atoms import Atom, Kind
from autoprune.apps.replay.choices import Policy
from autoprune.apps.replay.episode import Episode
from autoprune.apps.replay.play import Run, play
from autoprune.apps.replay.visible import Text
from autoprune.economics import LISTS
from episodes import USER, call, episode, in_words, reading, result
from tables import each_row

from prunebench.passages import cut_to_passages, merge_spans

EDIT, PATH, IDENTIFIER, CODE, ERROR, *_ = Kind


def lines(*numbers: int) -> list[str]:
    return [f"the line_number_{at} of a file" for at in numbers]


FILE = "\n".join(lines(*range(100)))


def edit(*numbers: int) -> Atom:
    return Atom(EDIT, "\n".join(lines(*numbers)))


@each_row(
    ("atoms", "expected"),
    [
        ([edit(50)], ["[… 45 lines left out …]", *lines(*range(45, 57)), "[… 43 lines left out …]"]),
        ([edit(0)], [*lines(*range(12)), "[… 88 lines left out …]"]),
        ([edit(99)], ["[… 88 lines left out …]", *lines(*range(88, 100))]),
        ([edit(*range(20, 50))], ["[… 20 lines left out …]", *lines(*range(20, 50)), "[… 50 lines left out …]"]),
        # two that nearly touch, and two that do not
        ([edit(20), edit(34)], ["[… 15 lines left out …]", *lines(*range(15, 41)), "[… 59 lines left out …]"]),
        (
            [edit(80), Atom(CODE, "line_number_9")],
            [
                *("[… 4 lines left out …]", *lines(*range(4, 16)), "[… 59 lines left out …]"),
                *(*lines(*range(75, 87)), "[… 13 lines left out …]"),
            ],
        ),
        # one that stands in a passage that is there already
        (
            [edit(50), Atom(IDENTIFIER, "line_number_51")],
            ["[… 45 lines left out …]", *lines(*range(45, 57)), "[… 43 lines left out …]"],
        ),
    ],
)
def test_a_passage_is_the_lines_of_an_atom_with_lines_around_them(atoms: list[Atom], expected: list[str]):
    assert cut_to_passages(FILE, atoms) == "\n".join(expected)


def test_passages_show_every_atom_also_after_line_numbers():
    numbered = "\n".join(f"{at:>6}→{line}" for at, line in enumerate(FILE.splitlines(), 1))
    atoms = [edit(50, 51), Atom(IDENTIFIER, "line_number_7"), Atom(PATH, "src/line_number_90")]
    left = cut_to_passages(numbered, atoms)
    assert left is not None
    assert all(Text(left).shows(atom) for atom in atoms)
    assert left.count("left out") == 4
    assert "    51→the line_number_50 of a file\n    52→" in left


@each_row(
    ("atom", "shown"),
    [
        (Atom(Kind.FACT, "12345"), ["it was 12,345 in all"]),
        (Atom(Kind.FACT, "Ilse Weber"), ["asked by Ilse", "Weber and others"]),
        (Atom(Kind.FACT, "客户尚未收到"), ["订单已发，客户尚未", "收到通知"]),
        (Atom(Kind.QUOTE, "all orders are shipped"), ["that all", "orders are ship-", "ped today"]),
        (Atom(Kind.ROW, "w2378156"), ["| W2378156 | 7 |"]),
    ],
)
def test_a_passage_shows_what_an_agent_stated(atom: Atom, shown: list[str]):
    text = "\n".join([*lines(*range(50)), *shown, *lines(*range(50, 100))])
    left = cut_to_passages(text, [atom])
    assert left is not None
    assert "\n".join(shown) in left
    assert left.count("\n") == 13
    assert cut_to_passages(FILE, [atom]) is None


@each_row("text", ["", "other", FILE.replace("\n", "\\n"), '{"output": "the line_number_50\\nof a file"}'])
def test_a_text_whose_lines_cannot_be_left_out_is_not_shortened(text: str):
    assert cut_to_passages(text, [edit(50, 51)]) is None


def test_spans_are_joined_in_order():
    assert merge_spans([(20, 32), (0, 12), (14, 16), (40, 41)]) == [(0, 16), (20, 32), (40, 41)]


# In a replay


def run(known: Episode) -> Run:
    policy = Policy("clairvoyant_passages")
    assert policy.is_clairvoyant
    assert policy.is_baseline
    strategy, _ = policy.for_episode(known, LISTS["anthropic"])
    return play(known, lambda: AgenticConversationPruner(10**9), strategy, count=in_words)


def source(name: str) -> str:
    return "\n".join(f"{name}_{at}_value = {at} # and some more words on this line" for at in range(200))


def test_passages_of_results_that_are_needed_later_are_left():
    texts = [source("first"), *["short"] * 14]
    known = episode(reading(*texts, old_string="first_100_value = 100 # and some more words on this line"))
    found = run(known)
    assert found.prompts[-1].tokens < known.transcript.tokens / 5
    assert (found.retained, found.in_results, found.rereads) == ((True,), (False,), ())
    assert found.violations == ()


def test_passages_are_cleared_after_their_last_use():
    messages = [USER, call("r", {}), result("r", source("first"))]
    for at in range(40):
        needs = {"old_string": "first_100_value = 100 # and some more words on this line"} if at == 4 else {}
        messages += [call(f"c{at}", needs), result(f"c{at}", "short " * (300 if at == 6 else 1))]
    found = run(episode(messages))
    assert found.retained == (True,)
    assert found.violations == ()
    breaks = [at for at in range(1, 41) if found.prompts[at].held < found.prompts[at - 1].tokens]
    assert len(breaks) == 2
    assert breaks[0] < 5 < breaks[1]


def test_a_result_is_shortened_only_once_so_that_pruning_the_output_again_changes_nothing():
    used = {
        4: "\n".join(source("first").split("\n")[20:80]),
        10: source("second"),  # so long as it is needed whole, shortening an earlier result again would be dear
        11: "first_150_value = 150 # and some more words on this line",
    }
    messages = [USER, call("r", {}), result("r", source("first")), call("s", {}), result("s", source("second"))]
    for at in range(12):
        arguments = {"old_string": used[at]} if at in used else {}
        messages += [call(f"c{at}", arguments), result(f"c{at}", "short " * 30)]
    found = run(episode(messages))
    assert (found.retained, found.violations) == ((True, True, True), ())
