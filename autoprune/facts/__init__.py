"""Facts about what messages say. Decides nothing, edits nothing.

`calls` reads the arguments of tool calls, `shell` the commands in them, `file_access` the files that either touched,
`outcomes` whether they failed; `actions` combines all of that. `utterances` gives messages as plain text, `harness` the
user's words in them, and `answers` what the user said through a tool.
"""
