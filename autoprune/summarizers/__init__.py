"""One module per way to write a summary. A summarizer is anything callable with a brief; none has a base class."""
