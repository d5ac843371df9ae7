"""Have this process give memory back: what a large request took, when it is done with."""

import ctypes
from contextlib import suppress

# Parameters of glibc's mallopt, by their numbers in malloc.h, with bytes, and the number of arenas.
TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = (-1, 131_072), (-3, 65_536), (-8, 1)


def give_back() -> None:
    """Set the allocator so, where it is glibc's; for a process that does nothing but to serve, at its start."""
    with suppress(AttributeError, OSError, TypeError):  # another allocator, another system
        mallopt = ctypes.CDLL(None).mallopt
        for parameter in (TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX):
            mallopt(*parameter)
