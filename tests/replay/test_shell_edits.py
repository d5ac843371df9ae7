"""The old text of edits by shell commands, or else the files that they change."""

from episodes import call, episode, reading
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from tables import each_row

from autoprune.apps.replay.atoms import Kind
from autoprune.apps.replay.shell_edits import literal, shell_edits

IN_LINE = "open('src/app.py', 'w').write(open('src/app.py').read().replace('first_name', 'x'))"


def python(*lines: str, ends: str = "path.write_text(text)") -> str:
    """A script that reads a file, and does something with its text."""
    body = ("path = Path('src/settings.py')", "text = path.read_text()", *lines, ends)
    return "\n".join(("python3 - <<'EOF'", *body, "EOF"))


@each_row(
    ("script", "expected"),
    [
        # sed
        ("sed -i 's/total(1)/total(2)/' app.py", ["total(1)"]),
        ("sed -i '' 's/new Editor()/new Editor(x)/g' src/editor.ts", ["new Editor()"]),
        (
            "sed -i.bak -e '/^import old_thing$/d' -e 's|https://old\\.example|x|' a.toml",
            ["import old_thing", "https://old.example"],
        ),
        ("cd src && sudo sed -i \"s/rows\\['first'\\],/x/\" app.py", ["rows['first'],"]),
        ("sed -i '120s/first_of(rows)/rows[0]/; 130,140d' app.py", ["first_of(rows)"]),
        ("sed --in-place -E 's/first_name(_[a-z]+)?/x/' app.py", ["first_name"]),
        ("sed -i 's#a very long line#b#' one.txt two.txt", ["a very long line"]),
        # too short, or no text at all: the file
        ("sed -i 's/foo/bar/' src/handlers.py util/io.py", ["handlers.py", "util/io.py"]),
        ("sed -i '10,20d' src/handlers.py", ["handlers.py"]),
        ("sed -i '10i\\    a new line of text' src/handlers.py", ["handlers.py"]),
        ("sed -i 's/foo/bar/' $FILE a.py", []),
        # no edits
        ("sed -n 's/first_name/x/p' src/handlers.py", []),
        ("sed 's/first_name/x/' src/handlers.py", []),
        ("grep -rn 'sed -i s/first_name/x/' src", []),
        ("echo \"it's", []),
        # perl and ed
        ("perl -pi -e 's/first_name/x/g' src/handlers.py", ["first_name"]),
        ("perl -0777 -i -pe 's{def one\\(\\):\\n    pass\\n}{}s' src/handlers.py", ["def one():\n    pass\n"]),
        ("perl -e 'print 1' src/handlers.py", []),
        ("ed -s src/handlers.py <<'EOF'\n/old_value = 12/c\nnew\n.\nw\nEOF", ["old_value = 12"]),
        ("ed src/handlers.py <<EOF\n12d\nwq\nEOF", ["handlers.py"]),
        # files that are written
        ("cat > src/settings.py <<'EOF'\nx = 1\nEOF", ["settings.py"]),
        ("cat <<EOF >> notes.md\nx\nEOF\ntee -a src/settings.py <<EOF\ny\nEOF", ["notes.md", "settings.py"]),
        ("cat <<EOF\nx\nEOF", []),
        ("pytest > out.log 2>&1", []),
        ("cat <<< text > notes.md", []),
        # Python
        (python('text = text.replace("first_of(rows)", "rows[0]")'), ["first_of(rows)"]),
        (python('old = """def one():', "    pass", '"""', "assert old in text"), ["def one():\n    pass\n"]),
        (
            python(
                'for old, new in [("first old text", "a"), ("second text", "b")]:', "    text = text.replace(old, new)"
            ),
            ["first old text", "second text"],
        ),
        (python('text = re.sub(r"first_name\\s*=\\s*None", "", text)'), ["first_name"]),
        (python('text += "more"'), ["settings.py"]),
        (python("text +"), []),
        (python('text = text.replace("first_name", "")', ends="print(text)"), []),
        (f'python -c "{IN_LINE}"', ["first_name"]),
        (f"cat > fix.py <<'EOF'\n{IN_LINE}\nEOF\npython fix.py", ["first_name", "fix.py"]),
    ],
)
def test_the_old_text_of_an_edit_or_the_file(script: str, expected: list[str]):
    assert shell_edits(script) == expected


@each_row(
    ("pattern", "basic", "extended"),
    [
        ("os.path(x)", "os.path(x)", "os.path"),
        (r"os\.path\(x\)", "os.path", "os.path(x)"),
        ("first.*second_one", "second_one", "second_one"),
        ("names* of all", " of all", " of all"),
        ("name+s of all", "name+s of all", "s of all"),
        ("[.]path[abc]one", ".path", ".path"),
        (r"a\tb\nc", "a\tb\nc", "a\tb\nc"),
        ("^begin", "begin", "begin"),
        ("ends$", "ends", "ends"),
        (r"\bword\b", "word", "word"),
        ("", "", ""),
        ("[", "", ""),
        ("\\", "\\", "\\"),
    ],
)
def test_the_longest_literal_piece_of_a_pattern(pattern: str, basic: str, extended: str):
    assert (literal(pattern, extended=False), literal(pattern, extended=True)) == (basic, extended)


@examples(200)
@given(st.text(alphabet="ab_ .()'\"=/|\\", min_size=8, max_size=30), st.sampled_from("/|#"))
def test_a_text_that_sed_searches_for_is_found_in_the_file(text: str, by: str):
    """Escaped for sed and quoted for the shell, it is an atom whose source is the file; a piece of it at least."""
    escaped = "".join(f"\\{sign}" if sign in f".*[]^$\\{by}" else sign for sign in text)
    quoted = escaped.replace("'", "'\\''")
    found = shell_edits(f"sed -i 's{by}{quoted}{by}x{by}' src/handlers.py")
    assert found == [text if len("".join(text.split())) >= 8 else "handlers.py"]


@examples(300)
@given(
    st.lists(
        st.sampled_from(
            ("sed -i ", "perl -pi -e ", "s/", "s{", "}", "/", "\\", "'", '"', "<<EOF", "\n", "EOF", "x", "[", " ")
        )
    )
)
def test_any_script_can_be_read_and_the_edit_before_it_is_found(parts: list[str]):
    found = shell_edits("sed -i 's/first_of(rows)/rows[0]/' app.py\n" + "".join(parts))
    assert "first_of(rows)" in found
    assert all(found)


def test_the_old_text_counts_where_a_result_shows_it():
    source = "def run(rows):\n    return first_of(rows)\n"
    edit = call("e", {"command": "sed -i 's/return first_of(rows)/return rows[0]/' app.py"}, "bash")
    messages = [*reading(source)[:-1], edit]
    found = [(need.atom.kind, need.atom.text, need.sources) for need in episode(messages).evidence.needs]
    assert found == [
        (Kind.IDENTIFIER, "first_of", (0,)),
        (Kind.SHELL_EDIT, "return first_of(rows)", (0,)),
    ]


def test_a_patch_that_git_applies_is_an_edit_like_any_other():
    diff = (
        "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n def run(rows):\n-    return first_of(rows)\n+    return rows[0]"
    )
    for program in ("git apply", "patch -p1"):
        edit = call("e", {"command": f"{program} <<'EOF'\n{diff}\nEOF"}, "bash")
        known = episode([*reading("def run(rows):\n    return first_of(rows)\n")[:-1], edit])
        assert [need.atom.kind for need in known.evidence.needs] == [Kind.EDIT]
