"""Facts about what messages say. Decides nothing, edits nothing.

`calls` reads the arguments of tool calls, `shell` the commands in them, `outcomes` how they ended and what the user
said through them; `actions` combines all of that with the files that they touched. `utterances` gives messages as plain
text, and the user's words in them.
"""
