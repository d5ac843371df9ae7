"""A model provider for tests: it plays a script over HTTP and refuses what the real providers refuse.

It is an independent judge: nothing of the library is imported but its exact token counter. Start it with
`strict_provider.server.serve`, the fixture of `tests/conftest.py`, or `python -m tests.support.strict_provider`.
"""
