"""Context policies: rules of any tool that a replay compares. None of them can be used live.

A policy decides from a `RequestView` and answers with `Changes`; `PolicyPrompts` sends what it decides. A replay takes
a policy from a file, as `--strategy mine.py:Mine`, or from an installed package that registers it under the entry point
group `autoprune.context_policies`: a class or function that makes it, with a default for each parameter.
"""

from autoprune.apps.policies._policy import NOTHING, Changes, ContextPolicy, RequestView
from autoprune.apps.policies._prompts import PolicyPrompts

__all__ = ["NOTHING", "Changes", "ContextPolicy", "PolicyPrompts", "RequestView"]
