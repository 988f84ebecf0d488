"""One simulated configuration of a host and its offload NIC.

The compiled core (`_core`) simulates. This module converts its JSON into Python values
and its errors into those of `perpacket.errors`. A result has these keys, with `None` where a
workload has no such value (a bulk sender has no requests). Shares are 0 to 1, packets are frames
sent or received, M is 10^6.

| key | meaning |
|---|---|
| `schema`, `configuration`, `seed` | identify the run |
| `simulated_s` | length of the measured window, in simulated seconds |
| `wall_s`, `packets_per_wall_s` | time and rate of the simulation, the only values that may differ
  between equal runs |
| `requests_per_s`, `content_mbps`, `packets_per_s`, `connections_per_s` | rates |
| `nic_packet_share`, `handed_off_share` | packets the NIC processed, connections handed off |
| `host_idle`, `nic_idle` | shares of time |
| `host_cycles` | `user`, `kernel`, `idle` |
| `layers` | for each: `cycles_per_packet`, `instructions_per_packet`, `l1d_misses_per_packet`,
  `l2_misses_per_packet` |
| `host_packet_delay_us` | time of host packets in the NIC: `send` and `receive`, each with
  `mean`, `median`, `p99` |
| `response_ms` | `mean`, `median`, `p99` |
| `drops`, `retransmissions`, `timeouts` | packets, segments, timers |
| `connections_on_nic` | `mean`, `last` |
| `conserved` | whether sent packets equal delivered, dropped and in-flight packets |
"""

from __future__ import annotations

import json
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.errors import (
    ConfigurationError,
    Interrupted,
    MachineLacks,
    PerpacketError,
    RunFailed,
    TraceError,
)

if TYPE_CHECKING:
    from types import ModuleType

Overrides = Mapping[str, str | float] | Sequence[tuple[str, str | float]]
"""Values of parameters, by name or as pairs."""

Result = dict[str, object]
"""The result of a run: the object the core writes as JSON."""

REPORT_HINT = "this is a fault of perpacket: please report it with the command"

POLL_S = 0.1
"""Interval of progress reports of a cancellable run."""

MOST_SEED = 2**64 - 1
"""Seeds are 64 bits wide."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a run: its value, unit and the source of the value."""

    name: str
    value: str | int | float | bool | None
    unit: str
    source: str


class Simulation:
    """One prepared run of one configuration.

    `configuration` is the shorthand of OSDI 2006, Table 3 (`W-1024-P-N-FCFS-400`), or `bulk` for
    the bulk sender of TR05-450. `overrides` maps parameters to values, as `{"nic.lowat": 128}`.
    `trace` is a file of recorded requests that replace the synthesized ones. Equal arguments lead
    to equal results, bit for bit.

    Raises `ConfigurationError` naming the parameter and the allowed values, `TraceError` when the
    trace cannot be used, `MachineLacks` when the compiled core is not installed.
    """

    def __init__(
        self,
        configuration: str,
        *,
        seed: int = 1,
        overrides: Overrides = (),
        trace: str | Path | None = None,
        timeline: bool = False,
    ) -> None:
        """Prepare the run; nothing is simulated yet."""
        self.configuration = configuration
        self.seed = whole_number("seed", seed, MOST_SEED)
        settings = setting_pairs(overrides)
        core = load_core()
        with core_errors(lambda: closest(configuration, settings)):
            self._core = core.Simulation(
                configuration,
                settings,
                self.seed,
                trace=None if trace is None else str(trace),
                timeline=timeline,
            )

    def run(self) -> Result:
        """Simulate without blocking other threads. Raises `Interrupted` after `cancel`."""
        result: Result = json.loads(self.run_json())
        return result

    def run_json(self) -> str:
        """Do what `run` does, but return the core's JSON text."""
        with core_errors():
            return str(self._core.run())

    def progress(self) -> tuple[int, int]:
        """The numbers of simulated and of all packets. Any thread may call this."""
        done, total = self._core.progress()
        return int(done), int(total)

    def cancel(self) -> None:
        """Make `run` raise `Interrupted` soon. Any thread may call this."""
        self._core.cancel()

    def parameters(self) -> list[Parameter]:
        """Every parameter of the run, overrides included."""
        return [Parameter(**entry) for entry in json.loads(self._core.parameters())]

    def explanation(self) -> dict[str, object]:
        """The cycles, the instructions and the waits of the run by cause; call `run` before.

        Numbers are those of one request, or of one packet if `unit` is `packet`. Keys: `unit`,
        `units` (their number in the window), `host` (a list of operations: `operation`, `layer`,
        `calls`, `cycles`, `instructions`, `l1d_misses`, `l2_misses`), `nic` (`work`, `pieces`,
        `instructions`), `queues` (`queue`, `jobs`, `mean_us`, `longest_us`, `mean_length`), `drops`
        and `retransmissions`.
        """
        with core_errors():
            explanation: dict[str, object] = json.loads(self._core.explanation())
        return explanation

    def timeline(self) -> dict[str, list[object]]:
        """State over time, after a run with `timeline=True`: lists of equal length, one per column.

        Columns: `time_s`, `connections_on_nic`, `soft_limit`, `queue_packets`, `state`.
        """
        with core_errors():
            columns: dict[str, list[object]] = json.loads(self._core.timeline())
        return columns


def run_cancellable(simulation: Simulation, on_progress: Callable[[int, int], None]) -> str:
    """Run the simulation in another thread, so that Ctrl-C in this thread can cancel it.

    Returns the result as the core's JSON text. Calls `on_progress` with simulated and total packets
    about ten times a second.
    """
    results: list[str] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            results.append(simulation.run_json())
        except BaseException as error:  # a panic of the core is no Exception
            failures.append(error)

    thread = threading.Thread(target=work, name=f"simulate {simulation.configuration}")
    try:
        thread.start()  # Ctrl-C may arrive during the start
        while thread.is_alive():
            thread.join(POLL_S)
            on_progress(*simulation.progress())
    finally:
        simulation.cancel()
        if thread.is_alive():
            thread.join()
    if failures:
        raise failures[0]
    return results[0]


def whole_number(parameter: str, value: int, most: int) -> int:
    """A whole number from 0 to `most`; raises `ConfigurationError` naming the parameter if not."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= most:
        raise ConfigurationError(
            f"{parameter} = {value} cannot be used",
            parameter=parameter,
            value=str(value),
            allowed=f"expected a whole number from 0 to {most}",
        )
    return number


def setting_pairs(overrides: Overrides) -> list[tuple[str, str]]:
    """Overrides as pairs of texts; raises `ConfigurationError` for other values."""
    pairs = overrides.items() if isinstance(overrides, Mapping) else overrides
    try:
        return [(str(name), text_of(value)) for name, value in pairs]
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"overrides = {overrides!r} cannot be used",
            parameter="overrides",
            value=repr(overrides),
            allowed='expected a mapping of parameters to values, as {"nic.lowat": 128}',
        ) from None


def text_of(value: str | float) -> str:
    """A value as the parser of parameters reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def load_core() -> ModuleType:
    """The compiled core; raises `MachineLacks` when it is not installed."""
    try:
        from perpacket_lab import _core
    except ImportError as error:
        raise MachineLacks(
            f"the compiled core of perpacket cannot be loaded: {error}",
            hint="build and install it with `make setup` or `pip install .`",
        ) from None
    core: ModuleType = _core
    return core


def closest(configuration: str, settings: Sequence[tuple[str, str]]) -> str:
    """The name closest to the first override that no parameter has, as a question; else empty."""
    try:
        core = load_core().Simulation(configuration, [], 1, trace=None, timeline=False)
    except ValueError:
        return ""
    names = [entry["name"] for entry in json.loads(core.parameters())]
    unknown = next((name for name, _ in settings if name not in names), "")
    close = get_close_matches(unknown, names, n=1)
    return f"did you mean {close[0]}? " if close else ""


@contextmanager
def core_errors(suggestion: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Convert the core's errors into those of `perpacket.errors`, one to one.

    `suggestion` makes the beginning of the hint of an error about a parameter.
    """
    core = load_core()
    try:
        yield
    except PerpacketError:
        raise
    except core.ConfigurationError as error:
        raise ConfigurationError(
            f"{error.parameter} = {error.value} cannot be used",
            parameter=error.parameter,
            value=error.value,
            allowed=suggestion() + error.allowed,
        ) from None
    except core.TraceError as error:
        raise TraceError(str(error)) from None
    except core.Interrupted:
        raise Interrupted("the simulation was cancelled") from None
    except RuntimeError as error:
        raise RunFailed(str(error)) from None
    except BaseException as error:
        # A panic of the core derives from BaseException, and its type cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise RunFailed(f"the simulator failed: {error}", hint=REPORT_HINT) from error
