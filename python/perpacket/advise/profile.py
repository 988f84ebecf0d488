"""A profile for advice: the document of `perpacket profile` with its call chains."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perpacket import server_cost
from perpacket.advise.catalogue import BoundRule
from perpacket.advise.expression import NotReadable
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.measure import live
from perpacket.measure.agent import Options
from perpacket.measure.hosts.record import temporary_folder
from perpacket.server_cost import OFF_PATH, ServerCost

FREQUENCY_HZ = 397
"""Samples per second and processor, four times the default because the profile is short."""

LEAST_SAMPLES = 50
"""The least number of samples on the packet's path for ranking changes. With 50 samples, the
interval of a share of one half is +-14 percentage points."""

LEAST_WITHOUT_TIMES = 10
"""The same for stacks without times, whose counts may be shares in percent."""

LOCKS = ("_raw_spin_lock*", "_raw_spin_trylock*", "__raw_spin_lock*", "__raw_callee_save___pv_*")
"""Functions that take a spin lock for their callers."""

IDLE = (
    *("idle", "cpuidle_enter", "default_idle_call", "pv_native_safe_halt", "do_idle"),
    *("native_safe_halt", "default_idle", "poll_idle", "arch_cpu_idle", "acpi_safe_halt"),
    *("intel_idle", "intel_idle_ibrs", "intel_idle_irq", "acpi_idle_do_entry", "mwait_idle"),
    *("mwait_idle_with_hints", "acpi_processor_ffh_cstate_enter", "cpu_idle_poll"),
)
"""Functions in the call chain of an idle processor, or the only one in texts without chains."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Samples with the same call chain, from the outermost function."""

    process: str
    functions: tuple[str, ...]
    samples: int

    @property
    def is_own_code(self) -> bool:
        """Whether the sample is in the program's code or its libraries, shown as `[FILE]`."""
        return not self.functions or all(part.startswith("[") for part in self.functions)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the samples on the packet's path."""

    samples: float
    of: int

    @property
    def share(self) -> float:
        """The part as a fraction of the path's processor time."""
        return self.samples / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile, with call chains if they were stored."""

    document: Mapping[str, object]
    stacks: tuple[Stack, ...] = ()

    def number(self, *path: str) -> float:
        """The number at a path of the document; raises `NotReadable` if there is none."""
        found: object = self.document
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise NotReadable(f"the profile has no {' '.join(path)}")
        return float(found)

    def table(self, name: str) -> Mapping[str, object]:
        """A table of the document; empty if it has none."""
        found = self.document.get(name)
        return found if isinstance(found, Mapping) else {}

    @property
    def window_s(self) -> float:
        """The length of the profile in seconds."""
        return self.number("window_s")

    @property
    def is_missing(self) -> bool:
        """Whether there are counters alone."""
        return "samples" not in self.document and not self.stacks

    @property
    def is_of_accounts(self) -> bool:
        """Whether the profile is from the kernel's accounts of time, which need no right."""
        return self.document.get("backend") == "accounts"

    @property
    def cost(self) -> ServerCost | None:
        """The server's cost; None without layers, or in a document without times."""
        return None if self.is_of_accounts else server_cost.of_documents([self.document])

    @property
    def path_share(self) -> float:
        """The share of busy samples on the packet's path; 1 without layers.

        The other samples are in other programs and in kernel work of no layer.
        """
        row = self.table("layer_kinds").get(OFF_PATH)
        return 1.0 - math.fsum(row.values()) if isinstance(row, Mapping) else 1.0

    @property
    def busy_samples(self) -> float:
        """The number of samples of busy processors."""
        if self.stacks:
            return sum(stack.samples for stack in self._busy())
        samples = self.number("samples")
        try:
            busy_s, idle_s = self.number("total", "cpu_s"), self.number("idle", "cpu_s")
        except NotReadable:
            return samples
        return samples * busy_s / (busy_s + idle_s) if busy_s > 0 else 0.0

    @property
    def path_samples(self) -> int:
        """The samples on the packet's path."""
        return round(self.path_share * self.busy_samples)

    @property
    def too_few_samples(self) -> str:
        """A message if too few samples are on the packet's path to know a share; else empty."""
        least = LEAST_SAMPLES if self.document.get("window_s") else LEAST_WITHOUT_TIMES
        if self.is_of_accounts or self.is_missing or self.path_samples >= least:
            return ""
        return (
            f"only {self.path_samples} samples on the packet's path, expected {least} or "
            "more: profile while a load runs, or longer (--duration)"
        )

    def _busy(self) -> Sequence[Stack]:
        return [stack for stack in self.stacks if not _is_idle(stack.functions)]

    @property
    def has_callers(self) -> bool:
        """Whether call chains have more than their last function, unlike a flat `perf report`."""
        return any(len(stack.functions) > 1 for stack in self.stacks)

    def cells(self, layers: Iterable[str], kinds: Sequence[str] = ()) -> Part:
        """The samples of some layers; only those of some kinds of work if `kinds` names any."""
        cells = self.table("layer_kinds")
        if self.is_missing:
            raise NotReadable(NO_PROFILE)
        if not cells or self.is_of_accounts:
            raise NotReadable(NO_LAYERS)
        share = 0.0
        for layer in layers:
            row = cells.get(layer)
            if isinstance(row, Mapping):
                share += sum(value for kind, value in row.items() if not kinds or kind in kinds)
        return self._part(share * self.busy_samples)

    def _part(self, samples: float) -> Part:
        """These samples; raises `NotReadable` without any, if the recording lacks the kernel's."""
        notes = self.document.get("limits")
        if (
            not samples
            and isinstance(notes, list)
            and any(WITHOUT_KERNEL in str(note) for note in notes)
        ):
            raise NotReadable("the recording has no samples of the kernel: `perf record -a -g`")
        return Part(samples, self.path_samples)

    def part_of(self, bound: BoundRule) -> Part:
        """The samples of the part of the profile that a change of the catalogue can reduce."""
        if bound.frames:
            return self._chains(bound)
        return self.cells(bound.layers, bound.kinds)

    def chains(
        self,
        functions: Sequence[str],
        process: str = "",
        own_code: bool = False,
        callers: Sequence[str] = (),
    ) -> Part:
        """The samples with one of these functions in their call chain.

        `own_code` adds samples outside the kernel. `callers` counts only functions that one of them
        called.
        """
        named = BoundRule(
            frames=list(functions),
            process=process,
            own_code=own_code,
            callers=list(callers),
            removable="1",
        )
        return self._chains(named)

    def _chains(self, bound: BoundRule) -> Part:
        if self.is_missing:
            raise NotReadable(NO_PROFILE)
        if self.is_of_accounts:
            raise NotReadable(NO_LAYERS)
        if not self.stacks:
            raise NotReadable("the profile has no call chains: `perpacket profile --folded FILE`")
        has, is_process = chain_matcher(bound), matcher(bound.process.split("|"))
        found = sum(
            stack.samples
            for stack in self._busy()
            if (not bound.process or is_process(stack.process))
            and (has(stack.functions) or (bound.own_code and stack.is_own_code))
        )
        return self._part(found)


WITHOUT_KERNEL = "excludes the kernel"
"""The words of the profiler's note on a recording of programs' code alone."""


def _is_idle(functions: Sequence[str]) -> bool:
    """Whether a processor is idle: in the idle loop, and not in an interrupt of it."""
    place = max((at for at, name in enumerate(functions) if name in IDLE), default=None)
    return place is not None and not any(map(matcher(ENTRIES), functions[place + 1 :]))


ENTRIES = (
    *("asm_common_interrupt", "common_interrupt", "asm_sysvec_*", "sysvec_*", "do_IRQ"),
    *("ret_from_intr", "apic_timer_interrupt", "irq_exit*", "__irq_exit*", "do_softirq*"),
    *("__do_softirq", "__softirqentry_text_start", "handle_softirqs", "call_on_irq_stack"),
    *("el1_interrupt", "el1h_64_irq*", "el1_irq*", "gic_handle_irq", "xen_evtchn_do_upcall"),
    *("do_io_irq", "do_ext_irq", "do_irq_async", "net_rx_action", "net_tx_action"),
)
"""Functions by which an interrupt or a softirq begins, also in the idle loop; `interrupt_entry` of
crates/base/cost/data/layers.toml, and those of older kernels."""

NO_PROFILE = "there is no profile: `perf record -a -g`, or stacks as text"

NO_LAYERS = "the profile has no layers and call chains: perf is not permitted (`perpacket doctor`)"


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A test whether a function matches a pattern. A pattern that ends in `*` is a prefix."""
    exact = {pattern for pattern in patterns if not pattern.endswith("*")}
    starts = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return lambda function: function in exact or (bool(starts) and function.startswith(starts))


def chain_matcher(bound: BoundRule) -> Callable[[Sequence[str]], bool]:
    """A test whether a chain has one of the bound's functions, with its callers if they matter."""
    matches, calls, locks = matcher(bound.frames), matcher(bound.callers), matcher(LOCKS)
    outer, excluded = matcher(bound.within), matcher(bound.without)

    def has(chain: Sequence[str]) -> bool:
        if bound.without and any(map(excluded, chain)):
            return False
        caller = ""
        inside = not bound.within
        for function in chain:
            if matches(function):
                if inside and (not bound.callers or calls(caller)):
                    return True
            elif not locks(function):
                caller = function
            inside = inside or outer(function)
        return False

    return has


def folded(lines: Iterable[str]) -> Iterable[Stack]:
    """Call chains from lines of `process;outermost;...;innermost SAMPLES`."""
    for number, line in enumerate(lines, 1):
        chain, _, samples = line.rstrip().rpartition(" ")
        if not samples.isdigit() or not chain:
            raise ConfigurationError(
                f"--folded: line {number}: expected FUNCTION;FUNCTION NUMBER",
                hint="`perpacket profile --folded FILE` writes such a file",
            )
        process, *functions = chain.split(";")
        yield Stack(process, tuple(functions), int(samples))


def read(profile: Path, stacks: Path | None) -> Profile:
    """A stored profile; raises `ConfigurationError` for a file that is not one."""
    hint = "`perpacket profile --format json` prints such a file"
    try:
        document = json.loads(profile.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"--profile {profile}: {error}", hint=hint) from None
    if not isinstance(document, dict) or "window_s" not in document:
        raise ConfigurationError(f"--profile {profile}: it is not a profile", hint=hint)
    try:
        lines = [] if stacks is None else stacks.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"--folded {stacks}: {error}") from None
    return Profile(document, tuple(folded(lines)))


def measure(duration_s: float, pid: int | None = None, requests: str = "") -> Profile:
    """Profile the machine now.

    Without permission for perf, the profile is from the kernel's accounts and has no layers.
    """
    common: Options = {"duration": duration_s, "pid": pid, "requests": requests}
    with temporary_folder("advise") as folder:
        stacks = folder / "stacks"
        try:
            sampled: Options = {"frequency": FREQUENCY_HZ, "folded": str(stacks)}
            document = live.once(common | sampled)
        except MachineLacks:
            return Profile(live.once(common | {"events": "accounts"}))
        lines = stacks.read_text(encoding="utf-8", errors="replace").splitlines()
        return Profile(document, tuple(folded(lines)))
