"""Which programs a shell command runs, and which files it reads and changes."""

import pytest

from autoprune.conversation.transcript import Location, ToolCall
from autoprune.facts.actions import shell_files
from autoprune.facts.calls import command
from autoprune.facts.shell import is_read_only, only_prints_texts, program_names


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("A=1 sudo make", ("make",)),
        ("python sudo make", ("python",)),
        ("cd app && timeout 5 pytest", ("pytest",)),
    ],
)
def test_only_words_before_a_program_are_skipped(command: str, names: tuple[str, ...]):
    assert program_names(command) == names


@pytest.mark.parametrize(
    ("script", "files", "only_reads"),
    [
        (r"Get-Content -Path src\app.py -TotalCount 200", [("read", "src/app.py")], True),
        (r"get-content C:\app\main.py | Select-Object -First 20", [("read", "C:/app/main.py")], True),
        (r"Get-Content 'src\app.py'; Get-ChildItem src", [("read", "src/app.py")], True),
        ("@'\nrm old.py\n'@ | Set-Content src\\new.py -Encoding utf8", [("written", "src/new.py")], False),
        (r"Remove-Item .\old.py", [("deleted", "./old.py")], False),
        (r"Copy-Item a.py -Destination src\b.py", [("created", "src/b.py")], False),
        (r"Select-String -Path src\*.py -Pattern TODO", [], True),
        ("mv a.py b.py 2>/dev/null", [("moved", "a.py"), ("created", "b.py")], False),
        ('mv a.py "$DIR"', [("moved", "a.py")], False),
        (
            "mv -t lib/ a.py b.py",
            [("moved", "a.py"), ("moved", "b.py"), ("created", "lib/a.py"), ("created", "lib/b.py")],
            False,
        ),
        ("type app.py", [("read", "app.py")], True),
        (
            'cat > new-item.ts <<EOF\nimport x from @"\nEOF\nrm old.py',
            [("written", "new-item.ts"), ("deleted", "old.py")],
            False,
        ),
        (r"sed -n '/a\.py/p' app.py", [("read", "app.py")], True),
        ("git restore app.py", [("restored", "app.py")], False),
    ],
)
def test_scripts_of_powershell_are_read_like_those_of_a_shell(
    script: str, files: list[tuple[str, str]], only_reads: bool
):
    assert list(shell_files(script)) == files
    assert is_read_only(script) is only_reads
    assert only_prints_texts(script) is only_reads


@pytest.mark.parametrize(
    ("script", "files"),
    [
        ("git restore --staged app.py", []),
        ("git rm --cached app.py", []),
        ("git rm app.py", [("deleted", "app.py")]),
        ("git restore -S -W app.py", [("restored", "app.py")]),
        ("ln -s app.py link.py", [("created", "link.py")]),
        ("yq -i '.a = 1' app.yaml", [("edited", "app.yaml")]),
    ],
)
def test_a_file_that_a_command_only_names_is_not_said_to_be_changed(script: str, files: list[tuple[str, str]]):
    assert list(shell_files(script)) == files


@pytest.mark.parametrize(
    ("script", "only_reads"),
    [
        ("find . -name '*.orig' -delete", False),
        ("find src -name '*.py' -exec sed -i 's/a/b/' {} +", False),
        (r"find . -exec grep -q a {} \; -exec rm {} \;", False),
        ("find src -name '*.py' -exec grep -l load {} +", True),
        ("find . -name app.py", True),
        ("find . -name '*.py' | xargs -I {} grep load {}", True),
        ("grep -rl a src | xargs sed -i 's/a/b/'", False),
        ("yq -i '.a = 1' app.yaml", False),
        ("yq .a app.yaml", True),
        ("git branch -D fix", False),
        ("git -C app branch --delete fix", False),
        ("git branch --merged main", True),
        ("git remote add origin a.git", False),
        ("git remote -v", True),
        ("git log my-branch -u", True),
        ("git log --grep 'branch -d x'", True),
    ],
)
def test_a_program_that_reads_may_change_files_by_its_options(script: str, only_reads: bool):
    assert is_read_only(script) is only_reads


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "-lc"],
        ["powershell.exe", "-NoLogo", "-NoProfile", "-Command"],
        ["C:\\Windows\\System32\\WindowsPowerShell\\v1.0\\powershell.exe", "-Command"],
        ["pwsh", "-c"],
    ],
)
def test_the_shell_is_no_part_of_a_command(words: list[str]):
    call = ToolCall(Location((0,)), 0, "c1", "shell", {"command": [*words, "ls src"]})
    assert command(call) == "ls src"
