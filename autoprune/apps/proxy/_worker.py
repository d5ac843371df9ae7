"""The processes of lanes: python -m autoprune.apps.proxy._worker is their nursery.

It loads what every prune needs, and forks a process for each connection that it is handed over its standard input, so
that what was loaded is in memory once. A process does what it is asked over its connection until nobody can ask any
more, and so does the nursery.
"""

import gc
import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from typing import BinaryIO

from autoprune.apps.proxy._memory import give_back
from autoprune.apps.proxy._pruning import WARMING, Work
from autoprune.apps.proxy._settings import Settings

PATIENCE = 60  # seconds for an answer: a process that takes longer is ended
RARELY = 100_000, 50, 50  # allocations between searches for cycles, of which a prune makes next to none


def nurse(orders: socket.socket) -> None:
    """Fork a process for each connection that comes, until the other side is gone."""
    give_back()
    Work(Settings()).prune(WARMING)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a process ended
    while connections := socket.recv_fds(orders, 1, 1)[1]:
        with socket.socket(fileno=connections[0]) as connection:
            if os.fork() == 0:
                orders.close()
                serve(connection)
                os._exit(0)


def serve(connection: socket.socket) -> None:
    """Take the settings, then calls of the methods of `Work`, each as a name with arguments; answer each."""
    with connection.makefile("rb") as asked, suppress(ConnectionError):  # as the proxy's end breaks it
        work = Work(pickle.load(asked))
        while (answer := answered(work, asked)) is not None:
            connection.sendall(answer)


def answered(work: Work, asked: BinaryIO) -> bytes | None:
    """Do the next thing that is asked, and return the answer; None where nobody asks any more."""
    try:
        method, args = pickle.load(asked)
    except EOFError:
        return None
    signal.alarm(PATIENCE)
    answer = pickle.dumps(getattr(work, method)(*args), pickle.HIGHEST_PROTOCOL)
    signal.alarm(0)
    return answer


if __name__ == "__main__":
    with socket.socket(fileno=sys.stdin.fileno()) as orders:  # of which a process that is forked keeps no copy
        nurse(orders)
