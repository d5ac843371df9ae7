"""The newest cleared payloads, so that a person can look at what was removed. Kept in memory alone, compressed."""

import zlib
from collections import OrderedDict

QUICK = 1  # the level of compression: a fifth of source code remains, in a tenth of a millisecond


class Payloads:
    """The newest payloads by their ids, up to so many bytes."""

    def __init__(self, most: int) -> None:
        """Begin with none."""
        self._most, self._bytes = most, 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def put(self, id: str, text: str) -> None:
        """Keep a payload; the oldest go where there is no room."""
        if id in self._kept:
            return
        self._kept[id] = packed = zlib.compress(text.encode("utf-8", "surrogatepass"), QUICK)
        self._bytes += len(packed)
        while self._bytes > self._most:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone)

    def get(self, id: str) -> str | None:
        """Return a payload; None where it is not kept."""
        packed = self._kept.get(id)
        return None if packed is None else zlib.decompress(packed).decode("utf-8", "surrogatepass")
