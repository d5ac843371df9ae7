"""Decide which parts of a conversation to clear, fold or drop. Calls no model, edits no message.

`walk` asks a strategy at each request of a conversation; start reading there. `folds` removes whole messages for it.
`view` defines what a strategy sees and returns, and `plan` holds the decisions.
`protections`, `clamping` and `tool_inputs` are options of strategies that the walk applies.
`autoprune.strategies` exports the names that a strategy is written with.
"""
