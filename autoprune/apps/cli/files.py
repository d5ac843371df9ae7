"""Files in and out: a session is read whole, a file takes the place of the old one in one step, Python is run."""

import gzip
import os
import secrets
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autoprune.apps.cli.starting import check_output
from autoprune.apps.sessions import Reader, Session, agent_log, decode, load
from autoprune.errors import SessionError
from autoprune.strategies.scaffold import value_in_file

PRIVATE = 0o600
TO_DEVICES = ("/dev/", "/proc/")


def read(name: str, number: int = 1, readers: Sequence[Reader] = (), *, skip_broken: bool = False) -> Session:
    """Return a conversation of a session file, or of standard input for `-`."""
    called = "standard input" if name == "-" else name if name.strip() else repr(name)
    text = decode(_bytes(name, called), called, keeps_bad=True)
    try:
        return load(text, called, number, skip_broken=skip_broken, readers=readers)
    except SessionError as error:
        if error.line is None or skip_broken:
            raise
        raise SessionError(f"{error}; --skip-broken leaves such lines out", error.line) from error


def _bytes(name: str, called: str) -> bytes:
    if name == "-" and sys.stdin is None:
        raise SessionError("standard input is closed")
    if not name:
        raise SessionError("the name of the session file is empty: give a path, or - for standard input")
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise SessionError(f"{called} cannot be read: {error.strerror}") from error


def readers(named: str | None) -> tuple[Reader, ...]:
    """Return the session reader of one's own that the option `--reader` names; none where it was not given."""
    return (value_in_file(named, Reader, "Reader(name, detect, read)"),) if named is not None else ()


def refuse_log(to: str | None, readers: Sequence[Reader] = (), *, force: bool) -> None:
    """Raise SessionError where a conversation would be written over an agent's own log."""
    if to is None or force or not Path(to).is_file():
        return
    try:
        log = agent_log(decode(_bytes(to, to), to, keeps_bad=True), readers)
    except SessionError:  # it is no text, or nobody may read it: whether it may be written is found out then
        return
    if log is None:
        return
    size = f" of {log.records:,} lines" if log.records > 1 else ""
    lost = "; ".join(("times, usage and all else that is not sent to the model", *log.left_out))
    raise SessionError(
        f"{to} is a session file of {log.agent}{size}: a list of messages would take its place, which {log.agent} "
        f"cannot go on with, and this would be lost: {lost}. Write to another file, or give --force"
    )


def write(to: str, text: str) -> None:
    """Write a text to a file, or to standard output for `-`; a file is replaced as a whole or stays as it was.

    A name that ends in .gz is written compressed. Raises SessionError where it cannot be written.
    """
    data = text.encode()
    if to == "-":
        check_output()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    if to.lower().endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    try:
        _put(to, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SessionError(f"{to} cannot be written: {error.strerror}") from error


def replace_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read, in one step. Raises OSError where it cannot be written."""
    _replace(os.path.realpath(path), text.encode("utf-8", "replace"), None, PRIVATE)


def _put(to: str, data: bytes) -> None:
    try:
        known = os.stat(to)
    except FileNotFoundError:
        known = None
    is_device = os.path.abspath(to).startswith(TO_DEVICES)
    if is_device or (known and not stat.S_ISREG(known.st_mode)):
        with open(to, "wb") as device:
            device.write(data)
    else:
        _replace(os.path.realpath(to), data, known)


def _replace(path: str, data: bytes, known: os.stat_result | None, mode: int = 0o666) -> None:
    """Write beside a file and put it in the file's place, so that a full disk or Ctrl-C leaves the old one whole.

    `known` is the file that is there; its mode is kept, and its owner where that is allowed. Without it the file gets
    `mode`, as far as the umask allows.
    """
    if known and not os.access(path, os.W_OK):
        raise PermissionError(0, "it is read-only")
    beside = os.path.join(os.path.dirname(path), f".autoprune-{secrets.token_hex(8)}.tmp")
    try:
        # Nobody may read it before it has the mode of the file that it replaces.
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE if known else mode)
        with open(made, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if known:
            with suppress(PermissionError):
                os.chown(beside, known.st_uid, known.st_gid)
            os.chmod(beside, stat.S_IMODE(known.st_mode))
        os.replace(beside, path)
    finally:
        with suppress(FileNotFoundError):  # it is there only where something went wrong
            os.unlink(beside)
