"""Summaries by a model behind OpenAI's Chat Completions API; `OpenAISummarizer` is the door."""

from autoprune.summarizers.openai._snapshot import RESPONSE_FORMAT
from autoprune.summarizers.openai.summarizer import OpenAISummarizer

__all__ = ["RESPONSE_FORMAT", "OpenAISummarizer"]
