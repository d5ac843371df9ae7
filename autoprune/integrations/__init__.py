"""Adapters: one module for each framework or client. Only loading a module imports its framework.

To add one, read `_hooks`, and `strands` for messages as an API writes them, or `langchain` and `langchain_messages` for
messages of the framework's own classes.
"""
