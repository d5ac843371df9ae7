"""Conversations whatever their format: the base of all other packages.

    transcript     results, calls, requests and tokens, whatever the format
    messages       read and copy any message, a dict or an SDK's object
    edits          replace a part, fold or drop messages; the reasons; make edits in a copy
    placeholders   the text in place of a cleared result, and the mark by which it is recalled
    archive        where cleared payloads are kept and recalled
    summary        the running summary: its mark, and its place among the messages

Nothing here knows a format, decides an edit, or calls a model. Import from the modules.
"""
