"""Facts about what messages say. Decides nothing, edits nothing.

`calls` reads the arguments of tool calls, `shell` the commands in them, `outcomes` whether they failed; `actions`
combines all of that with the files that they touched. `utterances` gives messages as plain text: the user's words in
them, and what the user said through a tool.
"""
