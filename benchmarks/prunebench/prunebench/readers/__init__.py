"""Readers of the logs that only benchmarks read: OpenHands, SWE-agent, mini-swe-agent, Trae, Inspect and tau-bench."""
