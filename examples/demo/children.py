"""Child processes that never outlive the demo, and the signals that end it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, Optional, Sequence

# How long a child may take to end once it is asked to.
GRACE_SECONDS = 3.0
TAIL_LINES = 15
PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """The demo cannot go on: what happened, and what to do about it."""

    def __init__(self, what: str, advice: str = "", log: str = "") -> None:
        super().__init__(what)
        self.advice = advice
        self.log = log


class Stopped(BaseException):
    """A signal asked the demo to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """Turns the first signal into `Stopped`, but only where that leaves nothing half done.

    Those after it are ignored: the demo is ending, and that takes `GRACE_SECONDS` at most.
    """

    def __init__(self) -> None:
        self._shields = 0
        self._pending: Optional[int] = None
        self._closed = False

    def install(self) -> None:
        """Takes SIGINT, SIGTERM, and SIGHUP unless `nohup` had it ignored."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue
            signal.signal(signum, self._arrived)

    def close(self) -> None:
        """Ignores signals from here on."""
        self._closed = True

    def _arrived(self, signum: int, _frame: object) -> None:
        if self._closed:
            return
        if self._shields:
            self._pending = self._pending or signum
        else:
            self._stop(signum)

    def _stop(self, signum: int) -> None:
        self._closed = True
        raise Stopped(signum)

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Puts signals off until the end of the block."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._pending is not None and not self._shields and not self._closed:
            self._stop(self._pending)


class Child:
    """A process in a group of its own, its output in a log file."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches the demo alone, which then ends its children in order.
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )

    def signal(self, signum: int) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signum)

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def failed(self, what: str, advice: str) -> Failed:
        tail = self.output().splitlines()[-TAIL_LINES:]
        return Failed(f"{self.name} {what}", advice, "\n".join(line[:400] for line in tail))

    def check(self, advice: str) -> None:
        """Fails when the process has ended, with what it said last."""
        status = self.process.poll()
        if status is not None:
            how = f"with exit status {status}" if status >= 0 else f"by signal {-status}"
            raise self.failed(f"ended {how}", advice)


class Children:
    """All processes of a run."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._children: list[Child] = []

    def start(self, name: str, command: Sequence[str], log: Path) -> Child:
        # A signal between the start and the note of it would leave a process behind.
        with self._signals.shielded():
            try:
                child = Child(name, command, log)
            except OSError as error:
                reason = error.strerror or error
                raise Failed(f"{name} did not start: {command[0]}: {reason}") from error
            self._children.append(child)
        return child

    def check(self) -> None:
        for child in self._children:
            child.check("run it again; if it ends again, its log above should say why.")

    def end(self) -> None:
        """Ends every process and waits until it has."""
        with self._signals.shielded():
            for child in self._children:
                child.signal(signal.SIGTERM)
            deadline = time.monotonic() + GRACE_SECONDS
            for child in self._children:
                try:
                    child.process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    child.signal(signal.SIGKILL)
                    child.process.wait()
            self._children.clear()


def _die_with_parent():
    """What a child does before it starts, so that it ends even if the demo is killed outright."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda: prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
