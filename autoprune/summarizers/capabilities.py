"""Read the optional attributes of a summarizer, with the defaults that `Summarizer` documents."""


def calls_model(summarizer: object) -> bool:
    """Return whether a summarizer calls a model."""
    return getattr(summarizer, "calls_model", True) is not False


def may_wait(summarizer: object) -> bool:
    """Return whether a summarizer may take long: one that calls a model, or a caller's function."""
    return bool(getattr(summarizer, "may_wait", calls_model(summarizer)))


def keeps_request(summarizer: object) -> bool:
    """Return whether a summarizer's text holds the user's first request in a section of its own."""
    return getattr(summarizer, "keeps_request", False) is True


def reads_in_parts(summarizer: object) -> bool:
    """Return whether a summarizer reads a long brief in parts, cut between its utterances."""
    return getattr(summarizer, "reads_in_parts", False) is True


def offers(summarizer: object, name: str) -> bool:
    """Return whether a summarizer or its class has an attribute of its own; a mock's answer to any name is none."""
    return hasattr(type(summarizer), name) or name in getattr(summarizer, "__dict__", ())


def identity_of(summarizer: object) -> str:
    """Return what a summarizer calls itself; else the full name of the function, or of the class."""
    own = getattr(summarizer, "identity", None)
    named = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return own if isinstance(own, str) else f"{named.__module__}.{named.__qualname__}"
