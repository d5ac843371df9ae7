"""Lanes in processes of their own, which a nursery forks (`_worker`), so that what all of them load is in memory once.

    proxy ── orders ──► nursery ── forks ──► process
      └────────── a connection of its own ──────┘

Whichever of them dies is started anew when it is asked next.
"""

import pickle
import socket
import sys
from subprocess import Popen
from threading import Lock

from autoprune.apps.proxy._pruning import Account, Done, Job
from autoprune.apps.proxy._settings import Settings

LOST = Done(note="the process that prunes has died: the request went on unpruned")


class Nursery:
    """The process that forks the others. One that has died is started anew when it is needed."""

    def __init__(self) -> None:
        """Start it; it is ready when it has loaded what a prune needs, and orders wait for that."""
        self._lock = Lock()
        self._start()

    def connection(self) -> socket.socket:
        """Return the connection to a new process."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            try:
                socket.send_fds(self._orders, [b"1"], [theirs.fileno()])
            except OSError:
                self.close()
                self._start()
                socket.send_fds(self._orders, [b"1"], [theirs.fileno()])
        return ours

    def close(self) -> None:
        """End it. Processes that it has forked go on until their connections end."""
        self._orders.close()
        self._process.wait()

    def _start(self) -> None:
        self._orders, theirs = socket.socketpair()
        command = (sys.executable, "-m", "autoprune.apps.proxy._worker")
        with theirs:  # a session of its own, since Ctrl-C is for others
            self._process = Popen(command, stdin=theirs.fileno(), start_new_session=True)


class Process:
    """A lane in a process of its own. One that dies is followed by another, which knows nothing yet."""

    def __init__(self, settings: Settings, nursery: Nursery) -> None:
        """Have it forked."""
        self._settings = settings
        self._nursery = nursery
        self._begin()

    def prune(self, job: Job) -> Done:
        """Return a request with its conversation pruned; `LOST` where the process has died."""
        done = self._ask("prune", job)
        return done if isinstance(done, Done) else LOST

    def again(self, mark: bytes, at: float) -> Done | None:
        """Return what was made of a request that is sent again; None if it has to be pruned."""
        done = self._ask("again", mark, at)
        return done if isinstance(done, Done) else None

    def account(self, number: int) -> Account | None:
        """Return what a prune came to, by its number."""
        account = self._ask("account", number)
        return account if isinstance(account, Account) else None

    def answered(self, conversation: str, usage: object) -> None:
        """Note the usage that was reported with an answer."""
        self._ask("answered", conversation, usage)

    def recall(self, id: str) -> str | None:
        """Return a cleared payload, if it is still kept."""
        text = self._ask("recall", id)
        return text if isinstance(text, str) else None

    def close(self) -> None:
        """End it."""
        self._answers.close()
        self._connection.close()

    def _begin(self) -> None:
        self._connection = self._nursery.connection()
        self._answers = self._connection.makefile("rb")
        self._tell(self._settings)

    def _begin_anew(self) -> None:
        self.close()
        self._begin()

    def _tell(self, value: object) -> None:
        self._connection.sendall(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def _ask(self, method: str, *args: object) -> object:
        """Return an answer; None where the process dies of the question."""
        try:
            self._tell((method, args))
        except OSError:  # it has died before
            self._begin_anew()
            self._tell((method, args))
        try:
            return pickle.load(self._answers)
        except (EOFError, OSError, pickle.UnpicklingError):
            self._begin_anew()
            return None
