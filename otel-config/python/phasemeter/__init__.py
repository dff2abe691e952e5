"""Reports work and experiments to the `phasemeter run` that started this program.

Without one, every function does nothing. None raises an exception because of what is reported or of the meter:
problems are logged by the logger `phasemeter`, and the program goes on.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import socket
import struct
from typing import Iterator

__all__ = ["checkpoint", "experiment", "traceparent", "work"]

_log = logging.getLogger(__name__)
# One second: how long a call waits at most for a meter that does not read.
_PATIENCE = struct.pack("ll", 1, 0)


def work(
    *,
    samples: int | None = None,
    requests: int | None = None,
    tokens: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
) -> None:
    """Work was done since the last call: whole numbers, of one or several units."""
    counts = dict(samples=samples, requests=requests, tokens=tokens, epochs=epochs, steps=steps)
    done = [f"work {unit} {count}" for unit, count in counts.items() if count is not None]
    _of_process(os.getpid()).report(*done)


def checkpoint() -> None:
    """The work so far is saved: an interruption would not lose it."""
    _of_process(os.getpid()).report("checkpoint")


@contextlib.contextmanager
def experiment(name: str, /, traceparent: str | None = None, **tags: object) -> Iterator[None]:
    """What runs in this context is the experiment `name`, which becomes a span with its cost and these tags.

    The span is in the W3C trace context `traceparent` if that is given, else in that of the run. Experiments that run at
    once share the time equally. White space in names becomes `-`.
    """
    connection = _Connection()
    named = [f"tag {key}={value}" for key, value in tags.items()]
    connection.report(f"begin {'-'.join(str(name).split())} {traceparent or ''}", *named)
    try:
        yield
    finally:
        connection.report("end")
        connection.close()


def traceparent() -> str | None:
    """The W3C trace context of the run, for the header `traceparent` of requests; `None` if there is none."""
    return os.environ.get("TRACEPARENT")


class _Connection:
    """Lines to the meter, if there is one. It answers those that it rejects."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process = os.getpid()
        path = os.environ.get("PHASEMETER_SOCKET")
        if path:
            try:
                self._socket = socket.socket(socket.AF_UNIX)
                for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
                    self._socket.setsockopt(socket.SOL_SOCKET, option, _PATIENCE)
                self._socket.connect(path)
            except OSError as error:
                self._give_up(error)

    def report(self, *lines: str) -> None:
        connected = self._socket
        if connected is None or self._process != os.getpid():
            return
        try:
            # A line break within a line would begin another one.
            text = "".join(" ".join(line.split()) + "\n" for line in lines)
            connected.sendall(text.encode(errors="replace"))
            _log_answers(connected, socket.MSG_DONTWAIT)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        connected, self._socket = self._socket, None
        if connected is None:
            return
        with connected, contextlib.suppress(OSError):
            # What a forked process shut down would be its parent's, too: it only closes its copy.
            if self._process != os.getpid():
                return
            connected.shutdown(socket.SHUT_WR)
            while _log_answers(connected):
                pass

    def _give_up(self, error: OSError) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            connected.close()
        _log.warning("work is not reported from now on: %s", error)


def _log_answers(connected: socket.socket, flags: int = 0) -> bool:
    """Returns whether more may follow."""
    try:
        answers = connected.recv(4096, flags)
    except BlockingIOError:
        return False
    for answer in answers.decode(errors="replace").splitlines():
        _log.warning("a report was rejected: %s", answer)
    return bool(answers)


@functools.lru_cache(maxsize=1)
def _of_process(process: int) -> _Connection:
    """A connection for everything but experiments, which a forked process does not share with its parent."""
    connection = _Connection()
    atexit.register(connection.close)
    return connection
