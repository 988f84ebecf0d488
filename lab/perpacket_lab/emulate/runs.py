"""One emulation: the deterministic runs of its variants, all from the same snapshot.

Variants run at the same time, one on each processor of this machine. They are independent of each
other.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Event

from perpacket import executables
from perpacket.errors import ConfigurationError, Interrupted, RunFailed
from perpacket_lab.emulate import report, work
from perpacket_lab.emulate.machine import Machine
from perpacket_lab.emulate.prepared import Prepared
from perpacket_lab.emulate.program_variables import variables
from perpacket_lab.emulate.qemu import Qemu
from perpacket_lab.emulate.settings import Settings
from perpacket_lab.emulate.user_functions import UserFunctions, place_of_function, with_functions
from perpacket_lab.emulate.work import Place

DONE = "perpacket: done"

Counts = Mapping[str, object]
"""The counts of one window, as the plugin writes them."""

OnProgress = Callable[[str, float], None]


def emulate(
    emulator: Qemu,
    plugin: Path,
    prepared: Prepared,
    settings: Settings,
    *,
    files: bytes = b"",
    workers: int = 0,
    record: Path | None = None,
    on_progress: OnProgress = lambda text, share: None,
) -> list[Counts]:
    """The counts of each variant, in order.

    `files` is the archive of another server. `record` is a file for the first variant's accesses.

    Raises `RunFailed` with the reason when a variant does not reach the end of its window.
    """
    stop = Event()

    def run(number: int) -> Counts:
        file = record if number == 0 else None
        return variant(
            emulator, plugin, prepared, settings, number, files=files, record=file, stop=stop
        )

    count = settings.variants
    with ThreadPoolExecutor(min(count, workers or os.cpu_count() or 1)) as pool:
        runs = [pool.submit(run, number) for number in range(count)]
        try:
            waiting = set(runs)
            while waiting:
                on_progress(f"variant {count - len(waiting)} of {count}", 1 - len(waiting) / count)
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for ended in finished:
                    ended.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [ended.result() for ended in runs]


def variant(
    emulator: Qemu,
    plugin: Path,
    prepared: Prepared,
    settings: Settings,
    number: int,
    *,
    files: bytes = b"",
    record: Path | None = None,
    stop: Event | None = None,
) -> Counts:
    """The counts of one variant; `stop` ends it early with `Interrupted`."""
    options = arguments(prepared, settings)
    # The rows of a recording are named before the mappings are known.
    names_user = settings.by == "function" and record is None
    part = record.with_name(f"{record.name}.part") if record else None
    if part:
        options["record"] = str(part)
        # Inclusive second levels depend on accesses that a filtered recording lacks.
        options["filter"] = "none" if settings.memory.policy == "inclusive" else "lines"

    def on_wait(_printed: str) -> None:
        if stop is not None and stop.is_set():
            raise Interrupted("the emulation was stopped")

    archives = (prepared.boot.archive_bytes(), files) if names_user or settings.function else ()
    script = work.script(settings, number, place_of(settings, prepared, archives))
    try:
        with (
            program_option(settings) as program,
            Machine(
                emulator,
                prepared.boot,
                plugin,
                options | program,
                incoming=True,
                work=script,
                files=files,
                names_user=names_user,
            ) as machine,
        ):
            machine.restore(prepared.state)
            machine.wait_for(DONE, on_wait)
            if part:
                machine.wait()  # the plugin completes its recording when the machine ends
            counts = last_window(machine.counts)
            if names_user:
                functions = UserFunctions.of(machine.mappings, *archives)
                counts = with_functions(counts, functions)
            if settings.counts_calls or settings.output:
                counts = {**counts, "requests": requests_of(settings, machine.console)}
        if part and record:
            part.replace(record)
        check_responses(settings, counts)
    finally:
        if part:
            with suppress(OSError):
                part.unlink(missing_ok=True)
    return counts


@contextmanager
def program_option(settings: Settings) -> Iterator[dict[str, str]]:
    """The plugin's option with the variables of another server's program, if they are needed."""
    command = settings.scenario.command
    path = executables.find(command[0]) if command and settings.by == "structure" else None
    text = variables(Path(path)) if path else ""
    if not text:
        yield {}
        return
    with NamedTemporaryFile("w", prefix="perpacket-variables-", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield {"program": file.name}


def arguments(prepared: Prepared, settings: Settings) -> dict[str, str]:
    """The arguments of the plugin; raises `ConfigurationError` if the kernel has no types."""
    found = {
        "symbols": str(prepared.symbols),
        "turn": str(settings.turn_instructions),
        "by": settings.by,
        **settings.memory.arguments,
    }
    if settings.hardware.processors:
        found["processors"] = str(settings.hardware.processors)
        found |= settings.memory.coherence
    if settings.rules:
        found["rules"] = str(settings.rules)
    if settings.by == "structure":
        if not prepared.types.is_file():
            raise ConfigurationError(
                f"--by structure: Linux {prepared.kernel} has no type information (BTF)",
                parameter="--by",
                hint="use a kernel that is built with CONFIG_DEBUG_INFO_BTF, as distributions do",
            )
        found["types"] = str(prepared.types)
    return found


def check_responses(settings: Settings, counts: Counts) -> None:
    """Raise `RunFailed` when a web server sent no response without an error."""
    if not settings.scenario.is_http or settings.scenario.client:
        return
    responses: Mapping[str, int] = counts["responses"]  # type: ignore[assignment]  # its type
    if any(status < report.ERROR_STATUS for status in map(int, responses)):
        return
    statuses = ", ".join(f"{number} of status {status}" for status, number in responses.items())
    raise RunFailed(
        f"the server sent no HTTP response without an error, but {statuses or 'none at all'}",
        "the clients request the file `file` of {root} at {address}:{port}; `perpacket emulate "
        "shell` opens a shell in the guest",
    )


def requests_of(settings: Settings, console: str) -> int:
    """The requests of a window that are no HTTP responses.

    Raises `RunFailed` if the output of the client does not have their number.
    """
    if not settings.output:
        return settings.requests
    text = console.rpartition(work.CLIENT_OUTPUT)[2].rpartition(DONE)[0]
    numbers = [found[1] or "" for found in re.finditer(settings.output, text)]
    try:
        total = round(sum(float(number.replace(",", "")) for number in numbers))
    except ValueError as error:
        raise RunFailed(f"--count-output {settings.output}: {error}") from None
    if total > 0:
        return total
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raise RunFailed(
        f"--count-output {settings.output}: the client's output has no such number; its last "
        f"lines: {' | '.join(lines[-work.OUTPUT_LINES :]) or 'none'}"
    )


def place_of(settings: Settings, prepared: Prepared, archives: Sequence[bytes]) -> Place | None:
    """The place of the function or system call whose calls are requests; `None` for neither.

    Raises `ConfigurationError` if it does not exist.
    """
    if settings.system_call:
        name = f"__x64_sys_{settings.system_call}"
        for line in prepared.symbols.read_text().splitlines():
            if line.split()[2] == name:
                return Place(int(line.split()[0], 16))
        raise ConfigurationError(
            f"--count-syscall {settings.system_call}: Linux {prepared.kernel} has no such system "
            "call",
            parameter="--count-syscall",
            hint="`perf trace` and `strace -c` list those of a program",
        )
    if settings.function:
        return place_of_function(settings.function, settings.scenario, archives)
    return None


def last_window(text: str) -> Counts:
    """The counts of the last line of the plugin; raises `RunFailed` for an error or no line."""
    lines = text.splitlines()
    if not lines:
        raise RunFailed("the emulator's plugin counted nothing: the guest ended no window")
    counts = json.loads(lines[-1])
    if "error" in counts:
        raise RunFailed(f"the emulator's plugin: {counts['error']}", str(counts.get("hint", "")))
    return dict(counts)
