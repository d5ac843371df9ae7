"""The process of a lane: python -m autoprune.proxy._worker. It does what it is asked until nobody can ask any more."""

import os
import pickle
import sys
from typing import BinaryIO

from autoprune.proxy._pruning import Work


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """Take the settings, then calls of the methods of `Work`, each as a name with arguments; answer each."""
    work = Work(pickle.load(asked))
    while True:
        try:
            method, args = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(getattr(work, method)(*args), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not stand among the answers
    serve(sys.stdin.buffer, channel)
