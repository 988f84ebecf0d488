"""Processes of this machine, optionally in a network namespace, that end with this process.

Three mechanisms end them. Closing the testbed stops them. The kernel kills each process when the
thread that started it dies; therefore one thread starts all processes, and this thread lives until
this process ends. A later run finds the remaining descendants by a mark in their environment, and
kills them.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from re import Match
from typing import IO

from perpacket.errors import MachineLacks, RunFailed
from perpacket.measure.hosts.contract import Completed, Process

MARK = "PERPACKET_TESTBED"
"""Environment variable of every process of a testbed; its value identifies the run."""

CLONE_NEWNET = 0x4000_0000
"""The flag of network namespaces (include/uapi/linux/sched.h)."""

PR_SET_PDEATHSIG = 1
"""Sets the signal at the death of the parent's thread (include/uapi/linux/prctl.h)."""

SHOWN_CHARACTERS = 2000
"""The number of last characters of a process's output that an error quotes."""

_libc = ctypes.CDLL(None, use_errno=True)


class _Starter:
    """The thread that starts all processes; after a fork, the child starts one of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._pool = None

    def call(self, start: Callable[[], subprocess.Popen[str]]) -> subprocess.Popen[str]:
        """Start a process on that thread."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed")
            pool = self._pool
        return pool.submit(start).result()


_starter = _Starter()


def enter_network(namespace: int) -> None:
    """Move the calling thread to the network namespace of an open file."""
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _before_exec(
    namespace: int | None, cpus: frozenset[int] | None, parent: int
) -> Callable[[], None]:
    """The steps of the new process before it executes the command."""

    def prepare() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)
        if namespace is not None:
            enter_network(namespace)
        if cpus:
            os.sched_setaffinity(0, cpus)

    return prepare


class LocalProcess:
    """A process of this machine; see `perpacket.measure.hosts.contract.Process`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        run: str,
        cpus: Iterable[int] | None = None,
        namespace: int | None = None,
        open_input: bool = False,
    ) -> None:
        """Start the process with the mark of that run.

        Its standard input is empty. With `open_input`, the input stays open without data until
        the Python process ends.
        """
        self.command = [str(word) for word in command]
        try:
            self._popen = _starter.call(lambda: self._start(run, cpus, namespace, open_input))
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise MachineLacks(
                f"{self.command[0]}: {(error.strerror or str(error)).lower()}",
                "install it, or name the program by its path",
            ) from error
        except subprocess.SubprocessError as error:
            raise RunFailed(
                f"{self.command[0]}: cannot be started on processors {sorted(cpus or ())}: {error}",
                "name processors that this machine has",
            ) from error
        self._changed = threading.Condition()
        self._output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self._popen.stdout), ("stderr", self._popen.stderr))
            if stream is not None
        ]
        for reader in self._readers:
            reader.start()

    def _start(
        self, run: str, cpus: Iterable[int] | None, namespace: int | None, open_input: bool
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE if open_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, MARK: run},
            # Ctrl-C must reach only this process, which stops the others in order.
            start_new_session=True,
            # This makes only system calls, and so needs no lock that another thread may own.
            preexec_fn=_before_exec(namespace, frozenset(cpus) if cpus else None, os.getpid()),  # noqa: PLW1509
        )

    def _read(self, name: str, stream: IO[str]) -> None:
        for line in stream:
            with self._changed:
                self._output[name].append(line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
        stream.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def stdout(self) -> str:
        """The standard output until now."""
        with self._changed:
            return "".join(self._output["stdout"])

    def drained(self) -> str:
        """The standard output since the last call. Removes it from `stdout`."""
        with self._changed:
            lines, self._output["stdout"] = self._output["stdout"], []
        return "".join(lines)

    @property
    def stderr(self) -> str:
        """The standard error until now."""
        with self._changed:
            return "".join(self._output["stderr"])

    def poll(self) -> int | None:
        """The exit status; `None` while the process runs."""
        return self._popen.poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise self._failure(f"still running after {timeout_s:g} s") from error

    def wait_for_line(self, pattern: str, timeout_s: float) -> Match[str]:
        """Wait for the first line of either output that matches."""
        wanted = re.compile(pattern)
        end_s = time.monotonic() + timeout_s
        seen = {"stdout": 0, "stderr": 0}
        while True:
            with self._changed:
                ended = not any(reader.is_alive() for reader in self._readers)
                for name, lines in self._output.items():
                    for line in lines[seen[name] :]:
                        if match := wanted.search(line.rstrip("\n")):
                            return match
                    seen[name] = len(lines)
                rest_s = end_s - time.monotonic()
                if ended:
                    # The exit status is available shortly after the last output.
                    with suppress(subprocess.TimeoutExpired):
                        self._popen.wait(1)
                    raise self._failure(f"ended without a line that matches {pattern!r}")
                if rest_s <= 0:
                    raise self._failure(f"no line matched {pattern!r} within {timeout_s:g} s")
                # A reader ends shortly after its last notification, so check again soon.
                self._changed.wait(min(rest_s, 0.1))

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        self._popen.send_signal(number)

    def stop(self, timeout_s: float = 5) -> int:
        """End the process and the rest of its process group; returns the exit status."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._popen.send_signal(number)
            try:
                self._popen.wait(timeout_s)
                break
            except subprocess.TimeoutExpired:
                continue
        with suppress(ProcessLookupError):
            # The group exists while it has any process, even after its leader has ended.
            os.killpg(self._popen.pid, signal.SIGKILL)
        return self._popen.wait()

    def result(self, timeout_s: float | None = None) -> Completed:
        """Wait for the end and return the output."""
        status = self.wait(timeout_s)
        for reader in self._readers:
            # A grandchild may still have the pipe open.
            reader.join(timeout=5)
        return Completed(status, self.stdout, self.stderr)

    def _failure(self, what: str) -> RunFailed:
        status = self.poll()
        ended = "" if status is None else f" (exit status {status})"
        words = self.stderr[-SHOWN_CHARACTERS:].strip() or "it wrote no errors"
        return RunFailed(f"{' '.join(self.command[:3])}: {what}{ended}", f"it printed: {words}")


def requested_report(process: Process, timeout_s: float) -> dict[str, object] | None:
    """The report that a program prints on SIGUSR1; `None` if it ends or exceeds `timeout_s`."""
    seen = len(documents(process.stdout))
    process.send_signal(signal.SIGUSR1)
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s and process.poll() is None:
        reports = documents(process.stdout)
        if len(reports) > seen:
            return reports[seen]
        time.sleep(0.01)
    return None


def documents(text: str) -> list[dict[str, object]]:
    """The complete JSON documents of a text, one after the other."""
    decoder = json.JSONDecoder()
    texts = []
    rest = text.lstrip()
    while rest:
        try:
            document, end = decoder.raw_decode(rest)
        except ValueError:
            break
        texts.append(document)
        rest = rest[end:].lstrip()
    return texts
