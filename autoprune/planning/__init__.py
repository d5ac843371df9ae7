"""Planning decides what goes from a conversation. It calls no model, reads no clock and no disk, edits nothing.

`walk` walks a conversation's requests and asks a strategy at each; `fold_walk` does so for strategies that take out
whole messages. `view` is what a strategy sees and answers, `plan` what comes out. `protections`, `clamping`,
`tool_inputs` and `retention` are the options that the walks obey for a strategy. `autoprune.strategies` offers what a
strategy is written with.
"""
