"""Read sessions, write files atomically, load readers from the user's Python files."""

import gzip
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from autoprune.apps.sessions import Reader, Session, agent_log, decode, load
from autoprune.errors import SessionError

PRIVATE = 0o600
DEVICE_FOLDERS = ("/dev/", "/proc/")


def user_folder(base: str, usual: str, environ: Mapping[str, str]) -> Path:
    """Return autoprune's folder in the base folder that the variable `base` names, or else in the `usual` one.

    A relative path is ignored. Source: XDG Base Directory Specification, version 0.8.
    """
    given = environ.get(base, "").strip()
    return Path(given if os.path.isabs(given) else os.path.expanduser(usual), "autoprune")


def read_session(name: str, number: int = 1, readers: Sequence[Reader] = (), *, skip_broken: bool = False) -> Session:
    """Read a conversation of a session file by its number; `-` is standard input. Raises SessionError."""
    called = "standard input" if name == "-" else name if name.strip() else repr(name)
    text = decode(_read_bytes(name, called), called)
    try:
        return load(text, called, number, skip_broken=skip_broken, readers=readers)
    except SessionError as error:
        if error.line is None or skip_broken:
            raise
        raise SessionError(f"{error}; --skip-broken leaves such lines out", error.line) from error


def _read_bytes(name: str, called: str) -> bytes:
    if name == "-" and sys.stdin is None:
        raise SessionError("standard input is closed")
    if not name:
        raise SessionError("the name of the session file is empty: give a path, or - for standard input")
    if os.path.isdir(name):
        raise SessionError(f"{called} is a folder: name one session file in it; `autoprune replay` reads whole folders")
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise SessionError(f"{called} cannot be read: {error.strerror}") from error


def load_readers(named: str | None) -> tuple[Reader, ...]:
    """Load the session reader that `--reader` names; empty without the option. Raises SettingsError."""
    if named is None:
        return ()
    from autoprune.apps.replay.session import load_reader  # slow, and rarely needed

    return (load_reader(named),)


def refuse_agent_log(path: str | None, readers: Sequence[Reader] = (), *, force: bool) -> None:
    """Raise SessionError if the output file is an agent's own session file, unless `force` is set."""
    if path is None or force or not Path(path).is_file():
        return
    try:
        log = agent_log(decode(_read_bytes(path, path), path), readers)
    except SessionError:  # no text, or not readable: then writing will show whether it is allowed
        return
    if log is None:
        return
    size = f" of {log.records:,} lines" if log.records > 1 else ""
    lost = "; ".join(("times, usage and all else that is not sent to the model", *log.left_out))
    raise SessionError(
        f"{path} is a session file of {log.agent}{size}: {log.agent} cannot continue from the list of messages that "
        f"would replace it, and this would be lost: {lost}. Write to another file, or give --force"
    )


def write_output(path: str, text: str | bytes) -> None:
    """Write a text or bytes to a file, or to standard output if the path is `-`. The file is replaced in one step.

    A name that ends in .gz is written compressed. Raises SessionError if the file cannot be written.
    """
    data = text.encode() if isinstance(text, str) else text
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    if path.lower().endswith(".gz"):
        data = gzip.compress(data, mtime=0)  # without the time, so that the same text gives the same bytes
    try:
        _write_bytes(path, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        folder = os.path.dirname(path)
        why = f"there is no folder {folder}" if folder and not os.path.exists(folder) else error.strerror
        raise SessionError(f"{path} cannot be written: {why}") from error


def replace_private(path: Path, content: str | bytes) -> None:
    """Write a file with mode 0600 in one step. Raises OSError if it cannot be written."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    _replace(os.path.realpath(path), data, None, PRIVATE)


def read_or_create_private(path: Path, text: str) -> str:
    """Read a file; if there is none, create it with mode 0600 and `text`. Raises OSError, and ValueError for no text.

    If several processes create it at once, all get the text of the first.
    """
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".autoprune-") as folder:
            new = Path(folder, path.name)
            replace_private(new, text)
            with suppress(FileExistsError):
                os.link(new, path)
    return path.read_text(encoding="utf-8")


def _write_bytes(path: str, data: bytes) -> None:
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    is_device = os.path.abspath(path).startswith(DEVICE_FOLDERS)
    if is_device or (old and not stat.S_ISREG(old.st_mode)):
        with open(path, "wb") as device:
            device.write(data)
    else:
        _replace(os.path.realpath(path), data, old)


def _replace(path: str, data: bytes, old: os.stat_result | None, mode: int = 0o666) -> None:
    """Write a temporary file in the same folder and rename it, so that a full disk or Ctrl-C leaves the old file whole.

    The new file gets the mode of the `old` one, and its owner if that is permitted. If there is no old file, it gets
    `mode`, limited by the umask.
    """
    if old and not os.access(path, os.W_OK):
        # Renaming would succeed even so: it needs write access to the folder only.
        raise PermissionError(0, "it is read-only")
    temporary = os.path.join(os.path.dirname(path), f".autoprune-{secrets.token_hex(8)}.tmp")
    try:
        # Private until it has the mode of the old file: nobody may read it in between.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE if old else mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old:
            with suppress(PermissionError):
                os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):  # after a rename it is gone
            os.unlink(temporary)
