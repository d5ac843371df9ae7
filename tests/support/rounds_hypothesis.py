"""Hypothesis strategies for what an agent does, of which `rounds.py` makes a conversation."""

from collections.abc import Sequence

from hypothesis import strategies as st
from rounds import Round, Step
from strategies_hypothesis import PHRASES, texts

# What a tool may print that reads like something else: results of every dialect, whole and in halves, calls, fences.
MARKUP = (
    *("</tool_result>", "<tool_result tool_name='X' success='true'>", "\n</content></tool_result>\n<tool_result>\n"),
    *("<tool_response>", "</tool_response>\n", "\n</tool_response>\n<tool_response>\n", "</result>\n", "\n<result>"),
    *("<error>", "</error>\n", "<invoke>"),
    *("[read_file for 'a.py'] Result:\n", "\n[main] Result:", "\n<environment_details>\n", "</environment_details>\n"),
    *("```\n", "\n~~~~\n", "`", '"', "\n", "\r\n", " ", "{", "}", '{"content": "', "<tool_call>\n", "</read_file>"),
    *(
        "The user provided the following feedback:\n<feedback>",
        "a plain line\n" * 12,
        "an error: 7\n" * 30,
        "見 \ud800",
    ),
)
LOOKALIKES = st.lists(st.sampled_from(MARKUP), min_size=1, max_size=9).map("".join)
REPEATED = st.builds(str.__mul__, st.sampled_from(PHRASES), st.sampled_from((30, 60, 90)))
OUTPUTS = st.one_of(texts(), LOOKALIKES, REPEATED, REPEATED, st.builds(str.__add__, REPEATED, LOOKALIKES))
PATHS = st.sampled_from(("a.py", "src/見.md", "AGENTS.md"))
READ = st.builds(lambda path, text: Step("read_file", {"path": path}, text), PATHS, OUTPUTS)
WRITTEN = "The file {} has been updated."
WRITE = st.builds(
    lambda path, body, more: Step("write_to_file", {"path": path, "content": body}, WRITTEN.format(path) + more),
    PATHS,
    OUTPUTS,
    st.one_of(st.just(""), OUTPUTS),
)
RUN = st.builds(
    lambda command, text, failed: Step("run", {"command": command}, f"Error: {text}" if failed else text, failed),
    st.sampled_from(("ls -l", "grep -n 'a' *.py", 'grep -e "a b"', '"my tool" --all')),
    OUTPUTS,
    st.booleans(),
)
# Flags that say fine beside texts that say failed, commands that hide their failures, and what the user says to a call.
HIDDEN = st.builds(
    lambda command, text, more: Step("run", {"command": command, "script": more}, more + text),
    st.sampled_from(("pytest -q | tail -3", "make || true", "npm test; ls", "git push 2>&1 | tail")),
    st.sampled_from(("1 failed in 0.1s", "error: failed to push some refs", "3 passed in 0.2s", "\nExit code: 1", "")),
    OUTPUTS,
)
QUESTION = st.builds(
    lambda tool, answer: Step(tool, {"question": "Tabs or spaces?"}, answer),
    st.sampled_from(("AskUserQuestion", "ask_user", "request_user_input")),
    OUTPUTS,
)
REASONS = (
    "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\n",
    "The user denied this operation and provided the following feedback:\n",
    "Plan rejected. User feedback: ",
)
REFUSED = st.builds(
    lambda reason, words, body: Step("write_to_file", {"path": "a.py", "content": body}, f"{reason}no {words}", True),
    st.sampled_from(REASONS),
    OUTPUTS,
    OUTPUTS,
)
STEPS = st.lists(st.one_of(READ, READ, READ, WRITE, WRITE, RUN, RUN, HIDDEN, QUESTION, REFUSED), min_size=1, max_size=3)


# What users paste: logs of other agents, in every dialect, with words of their own behind.
LOG = "total = compute(left, right)\n" * 12
PASTED = (
    f"The log shows:\n[read_file for 'a.py'] Result:\n{LOG}\nFix it, and never push.",
    f"[run for 'ls'] Result:\n{LOG}",
    f"It says\n<tool_response>\n{LOG}</tool_response>\nwhich is wrong.",
    f"As in <tool_result tool_name='a'>{LOG}</tool_result> I mean.",
    f"    <tool_result tool_name='a' success='true'>\n    {LOG}    </tool_result>",
    f"<!-- <tool_result tool_name='a'>{LOG}</tool_result> -->",
    f"Result:<tool_result tool_name='a'>{LOG}</tool_result>",
)


def rounds(said: Sequence[str] = ()) -> st.SearchStrategy[list[Round]]:
    """What an agent does in a few requests; the user says a few things in between, of which some may be given."""
    words = st.sampled_from(("And now?", "Mind `</tool_result>`.", "a < b", *said))
    return st.lists(st.one_of(STEPS, STEPS, STEPS, words), min_size=3, max_size=7)
