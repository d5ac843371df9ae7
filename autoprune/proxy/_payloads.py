"""The newest cleared payloads, so that a person can look at what was removed. Kept in memory alone."""

from collections import OrderedDict


class Payloads:
    """The newest payloads by their ids, up to so many bytes."""

    def __init__(self, most: int) -> None:
        """Begin with none."""
        self._most, self._bytes = most, 0
        self._kept: OrderedDict[str, str] = OrderedDict()

    def put(self, id: str, text: str) -> None:
        """Keep a payload; the oldest go where there is no room."""
        if id in self._kept:
            return
        self._kept[id] = text
        self._bytes += len(text)
        while self._bytes > self._most and self._kept:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone)

    def get(self, id: str) -> str | None:
        """Return a payload; None where it is not kept."""
        return self._kept.get(id)
