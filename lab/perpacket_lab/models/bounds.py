"""The greatest throughput of a server if only data movement costs time.

A transaction of S bytes uses paths through the machine. Each path crosses buses a number of times,
and a crossing takes S divided by the bus's bandwidth. Source: Isa 2003, chapter 3, equations 3.6 to
3.14 and table 3.1. Paths, transactions and servers are data: `data/bounds.toml`, or a user's file.

The source adds the times of all crossings (`overlap=False`). With `overlap=True` the buses work in
parallel and the busiest bus is the limit: an upper bound for machines with caches and DMA.
Both assume that processing takes no time, unless `Work` has a processor time (T_CPU of equations
3.9 to 3.11). `perpacket_lab.models.data_movement` has a function for each equation of the source.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import Field

from perpacket.errors import ConfigurationError
from perpacket.validation import FileTable, read_toml
from perpacket_lab.models.checks import numbers

AS_PRINTED_CPU_MEMORY = 1 / 32
"""Equation 3.6 prints S/(32 B_i) for the path from memory to the CPU. In consistent units the time
is S/B_i."""

PRINTED_DIFFERENCE = (
    "Equation 3.6 divides the bytes that the CPU reads by the 32 bytes of a cache line, although "
    "the bandwidth counts bytes. In consistent units the CPU reads S bytes in S/B_i."
)
"""The effect of `as_printed`."""

BITS_PER_BYTE = 8

PROCESSOR = "processor"
"""The name of the processor among the buses of a transaction."""


class ServerMachine(FileTable):
    """The bandwidth of each bus in MB/s (10^6 bytes per second), and its source."""

    name: str
    buses_mbytes_per_s: dict[str, float]
    source: str


class Transaction(FileTable):
    """The number of times that a transaction uses each path with all its data."""

    name: str
    paths: dict[str, float]
    source: str


class DataPath(FileTable):
    """The number of times that a path crosses each bus."""

    name: str
    crossings: dict[str, float]
    source: str


class Catalogue(FileTable):
    """The data from which bounds are computed."""

    path: list[DataPath] = Field(min_length=1)
    transaction: list[Transaction] = Field(min_length=1)
    server: list[ServerMachine] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Work:
    """The data and the processor time of one transaction. The default has no processor time.

    Raises `ConfigurationError` for a size that is not above 0 and for a negative time.
    """

    size_bytes: float = 1.0
    cpu_us: float = 0.0
    """T_CPU in microseconds; 0 makes the rate independent of the size."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        numbers("size_bytes", self.size_bytes, positive=True)
        numbers("cpu_us", self.cpu_us)


@dataclass(frozen=True, slots=True)
class MachineBound:
    """The highest rate at which one server can move one transaction's data."""

    server: str
    transaction: str
    mbps: float
    """10^6 bits per second."""
    time_us: float
    """Microseconds per transaction, the time that limits the rate."""
    limiting_bus: str
    """The bus with the longest busy time, or `processor`."""


def read_catalogue(file: Path | None = None) -> Catalogue:
    """The catalogue in a TOML file, or the one that comes with perpacket.

    Raises `ConfigurationError` naming the file, the key and what was expected.
    """
    place = file if file is not None else files(__package__) / "data" / "bounds.toml"
    catalogue = read_toml(place, Catalogue)
    check_names(str(place), catalogue)
    return catalogue


def check_names(place: str, catalogue: Catalogue) -> None:
    """Raise `ConfigurationError` on an unknown path, a duplicate name, a wrong number."""
    for kind, listed in (
        ("path", catalogue.path),
        ("transaction", catalogue.transaction),
        ("server", catalogue.server),
    ):
        twice = [name for name, times in Counter(item.name for item in listed).items() if times > 1]
        if twice:
            raise ConfigurationError(
                f"{place}: {kind} {twice[0]} is defined more than once",
                hint=f"use a different name for each {kind}",
            )
    for path in catalogue.path:
        check_numbers(f"{place}: path {path.name}: crossings", path.crossings)
    for transaction in catalogue.transaction:
        check_numbers(f"{place}: transaction {transaction.name}: paths", transaction.paths)
    for server in catalogue.server:
        check_numbers(f"{place}: server {server.name}: bandwidth", server.buses_mbytes_per_s)
    paths = {path.name for path in catalogue.path}
    for transaction in catalogue.transaction:
        for name in transaction.paths.keys() - paths:
            raise ConfigurationError(
                f"{place}: transaction {transaction.name}: no path {name!r}",
                hint=f"there are {', '.join(sorted(paths))}",
            )


def check_numbers(place: str, numbers: Mapping[str, float]) -> None:
    """Raise `ConfigurationError` unless there are numbers, all finite and above 0."""
    if not numbers:
        raise ConfigurationError(f"{place}: expected at least one")
    for name, number in numbers.items():
        if not (number > 0 and math.isfinite(number)):
            raise ConfigurationError(
                f"{place} of {name} is {number:g}, expected a finite number above 0",
                hint="leave out a bus with an unknown bandwidth",
            )


def bound(
    catalogue: Catalogue,
    server: ServerMachine,
    transaction: Transaction,
    work: Work = Work(),
    *,
    as_printed: bool = False,
    overlap: bool = False,
) -> MachineBound:
    """The bound of one transaction on one server, with the processor time of `work`.

    Raises `ConfigurationError` when the server has no bandwidth for a bus of the transaction.
    """
    per_byte = bus_times(catalogue, server, transaction, as_printed=as_printed)
    times = {bus: work.size_bytes * time_us for bus, time_us in per_byte.items()}
    if work.cpu_us:
        times[PROCESSOR] = times.get(PROCESSOR, 0.0) + work.cpu_us
    time_us = max(times.values()) if overlap else sum(times.values())
    slowest = max(times, key=lambda bus: times[bus])
    rate_mbps = BITS_PER_BYTE * work.size_bytes / time_us
    return MachineBound(server.name, transaction.name, rate_mbps, time_us, slowest)


def bus_times(
    catalogue: Catalogue, server: ServerMachine, transaction: Transaction, *, as_printed: bool
) -> Mapping[str, float]:
    """The microseconds for which a byte of the transaction uses each bus."""
    times: dict[str, float] = {}
    for path in catalogue.path:
        uses = transaction.paths.get(path.name, 0.0)
        for bus, crossings in path.crossings.items():
            if uses == 0:
                continue
            if bus not in server.buses_mbytes_per_s:
                raise ConfigurationError(
                    f"server {server.name}: no bandwidth for bus {bus!r}, which path {path.name} "
                    "crosses",
                    hint=f"it has {', '.join(server.buses_mbytes_per_s)}",
                )
            printed = as_printed and path.name == "cpu-memory"
            bytes_moved = uses * crossings * (AS_PRINTED_CPU_MEMORY if printed else 1)
            times[bus] = times.get(bus, 0.0) + bytes_moved / server.buses_mbytes_per_s[bus]
    if not times:
        raise ConfigurationError(f"transaction {transaction.name}: uses no path")
    return times


def all_bounds(
    catalogue: Catalogue,
    work: Work = Work(),
    *,
    as_printed: bool = False,
    overlap: bool = False,
) -> list[MachineBound]:
    """The bound of every transaction on every server that has the transaction's buses."""
    bounds = []
    for server in catalogue.server:
        for transaction in catalogue.transaction:
            if not lacking(catalogue, server, transaction):
                limit = bound(
                    *(catalogue, server, transaction, work), as_printed=as_printed, overlap=overlap
                )
                bounds.append(limit)
    return bounds


def lacking(catalogue: Catalogue, server: ServerMachine, transaction: Transaction) -> set[str]:
    """The buses of a transaction for which a server has no bandwidth."""
    crossed = {
        bus for path in catalogue.path if transaction.paths.get(path.name) for bus in path.crossings
    }
    return crossed - server.buses_mbytes_per_s.keys()


def left_out(catalogue: Catalogue) -> list[str]:
    """For each server, the transactions without a bound, and the buses that it lacks."""
    names = []
    for server in catalogue.server:
        without = {
            transaction.name: buses
            for transaction in catalogue.transaction
            if (buses := lacking(catalogue, server, transaction))
        }
        if without:
            names.append(
                f"{server.name}: no bound for {', '.join(without)}: it has no bandwidth for bus "
                f"{', '.join(sorted(set().union(*without.values())))}"
            )
    return names
