"""Facts about what messages say. Decides nothing, edits nothing.

`calls` reads the arguments of tool calls, `shell` the commands in them, `file_access` the files that either touched,
`outcomes` whether they failed; `actions` combines all of that. `words` gives the texts of a message, `harness` the
user's words in them, `answers` the user's words through a tool, and `utterances` whole messages as plain text.
"""
