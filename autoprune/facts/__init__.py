"""Facts about what messages say. Decides nothing, edits nothing.

`calls` reads the arguments of tool calls, `shell` the commands in them, `file_access` the files that either touched,
`outcomes` whether they failed; `actions` puts all of that together. `words` gives the texts of a message, `harness` the
user's own words in them, `answers` what the user said through a tool, and `utterances` whole messages in plain words.
"""
