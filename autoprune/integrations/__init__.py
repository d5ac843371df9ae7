"""Adapters: one module for each framework or client. Only loading a module imports its framework.

To add one, see what the framework's hook hands over. `_hooks.prune_body` prunes a whole request, or messages of an API:
`strands` is a short example. For messages of the framework's own classes, write a format that reads these, and give it
to `_hooks.FrameworkPruner`: `langchain` with `langchain_messages` is an example.
"""
