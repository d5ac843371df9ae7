"""What a conversation is to pruning: the ground that every other package stands on.

    transcript     results, calls, requests and tokens, whatever the format
    messages       how any message, a dict or an SDK's object, is looked into and copied
    edits          what may be done to a conversation: replace a part, fold or drop messages
    reasons        why a part was changed or kept
    placeholders   the text that stands in place of a cleared result
    rewriting      edits made in a copy of the messages
    summary        the running summary: its mark, and where it stands among the messages
    calls          what a call touches: paths, commands, addresses
    commands       shell commands, and what their exit codes hide
    outcomes       whether a result says that its call failed
    answers        what the user said through a tool
    copying        how values are pickled and copied

Nothing here knows a format, decides an edit, or calls a model. Import from the modules.
"""
