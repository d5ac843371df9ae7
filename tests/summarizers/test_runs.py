"""Whether a later command runs again what an earlier one ran, however each is prefixed, piped or narrowed."""

from tables import each_row

from autoprune.facts import shell
from autoprune.summarizers.digest._commands import reruns, runs


def covers(later: str, earlier: str) -> bool:
    return reruns(runs(shell.essence(later)), shell.essence(earlier))


@each_row(
    ("earlier", "later"),
    [
        ("bun run test | tail -80", "bun run test | tail -20"),
        ("npm test", "npm run test"),
        ("go test ./...", "env GOFLAGS=-mod=mod go test ./..."),
        ("go test ./...", "cd /repo && CI=1 timeout 60 go test ./... 2>&1 | tail -n 5"),
        ("go test ./...", "time sudo nice -n 5 go test ./..."),
        ("go test ./...", "mise exec -- go test ./..."),
        ("go test ./...", "(cd /repo && go test ./...)"),
        ("go test ./...", "bash -lc 'cd /repo; go test ./...'"),
        ("go test ./internal/auth/ -run 'TestLogin$' -v", "go test ./..."),
        ("go test ./internal/auth -run TestLogin", "go test ./internal/... -count=1"),
        ("go test ./a -run 'TestA|TestB'", "go test ./a -run 'TestB|TestA|TestC'"),
        ("pytest tests/test_a.py::test_one -x", "python3 -m pytest tests"),
        ("pytest tests/a.py", "uv run pytest"),
        ("npx tsc --noEmit", "./node_modules/.bin/tsc"),
        ("python3 .bench/run.py", "python3.11 /repo/.bench/run.py"),
        ("git push -u origin main", "git push --force-with-lease"),
        ("git merge origin/main", "git commit --no-edit"),
        ("git rebase origin/main", "git add a.py && GIT_EDITOR=true git rebase --continue"),
        ("gh pr create --title 'a b' --body \"$(cat <<'EOF'\nx\nEOF\n)\"", "gh pr create --title c --body d"),
        ("make clean && make", "make"),
        ("cat > /tmp/a.go <<'EOF'\npackage a\nEOF\ngo test ./a", "go test ./a"),
        ("echo start; make build; echo done", "make build"),
        ("set -e\nTMP=$(mktemp -d)\ngo run ./cmd \\\n  sync > out.txt", "go run ./cmd sync"),
        ("npm run check || true", "npm run check"),
    ],
)
def test_a_rerun_is_recognized_whatever_surrounds_the_command(earlier: str, later: str):
    assert covers(later, earlier)


@each_row(
    ("earlier", "later"),
    [
        ("go test ./...", "go test ./internal/auth"),
        ("go test ./...", "go test ./... -run TestLogin"),
        ("go test ./a -run 'TestA|TestB'", "go test ./a -run TestA"),
        ("go test ./a", "go build ./a"),
        ("mvn test", "mvn -pl core test"),
        ("mvn test", "mvn test -Dtest=LoginTest"),
        ("npm test", "npm test --workspace=app"),
        ("pytest tests/a.py", "pytest tests/b.py"),
        ("pytest tests/a.py", "pytest tests/a.pyi"),
        ("make test", "make"),
        ("make", "make test"),
        ("npm run lint", "npm run test"),
        ("git push", "git pull"),
        ("git checkout a", "git checkout b"),
        ("gh pr create", "gh pr view"),
        ("go test ./...", "grep -rn 'go test ./...' ."),
        ("go test ./...", "go test ./... --help"),
        ("npm test", "echo npm test"),
        ("npm test", "make || npm test"),
        ("ls a", "ls a"),
    ],
)
def test_another_program_or_another_target_is_not_the_same(earlier: str, later: str):
    assert not covers(later, earlier)


@each_row(
    ("command", "essence"),
    [
        ("cat > a.py <<'EOF'\nx = 1\nEOF\npython a.py", "cat > a.py <<…; python a.py"),
        ("echo '== tests' && go test ./... && echo OK", "go test ./..."),
        ("cd /a\nmake clean\nmake \\\n  all", "make clean; make all"),
        ("echo a | wc -c", "echo a | wc -c"),
        ("git commit -m 'one\n\ntwo; three'", "git commit -m 'one two; three'"),
        ("echo hello", "echo hello"),
    ],
)
def test_the_essence_of_a_script_is_what_it_does(command: str, essence: str):
    assert shell.essence(command) == essence


@each_row(
    ("command", "looks"),
    [
        ("git -C /a branch --list 'x*'", True),
        ("gh pr view 12 --json title | jq .title", True),
        ("gh pr create --title x", False),
        ("npm view x version; pip3 show x", True),
        ("npm install x", False),
        ("curl -s https://a.b/c | head", True),
        ("curl -X POST https://a.b/c", False),
        ("curl -T a.zip https://a.b/c", False),
        ("gh api repos/a/b --jq .name", True),
        ("gh api -X PATCH repos/a/b -f name=c", False),
        ("git config --get remote.origin.url", True),
        ("git config user.name c", False),
        ("workmux status a && tmux list-windows -a | rg a", True),
        ("workmux send a", False),
        ("make list", False),
        ("go get a/b", False),
        ("go run ./cmd --help", True),
        ("find . -name x | xargs rm", False),
        ("env", True),
        ("env A=1 make", False),
    ],
)
def test_more_read_only_commands(command: str, looks: bool):
    assert shell.is_read_only(command) is looks


def test_the_end_of_a_long_command_is_kept():
    command = f"git add {'src/a_file.py ' * 40}&& git rebase --continue"
    short = shell.abbreviate(command, 220)
    assert len(short) <= 220
    assert short.startswith("git add src/a_file.py")
    assert short.endswith("… && git rebase --continue")
