"""Conversations, independent of their wire format: the base of all other packages.

    transcript     results, calls, requests and tokens
    messages       read and copy any message, a dict or an SDK's object
    edits          replacements, folds and their reasons; placeholders, and the marks that recall what they replace
    archive        store cleared payloads and recall them
    summary        the running summary: its mark, and its place among the messages

Nothing here knows a format, decides an edit, or calls a model. Import from the modules.
"""
