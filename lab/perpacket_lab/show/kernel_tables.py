"""The tables of a study of kernels: the kernels, and the steps of the cost between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perpacket.analysis.ratios import ratio_text
from perpacket.analysis.statistics import number_text
from perpacket.show.table import Table

if TYPE_CHECKING:
    from perpacket_lab.analysis.analysis import Analysis
    from perpacket_lab.analysis.kernel_steps import KernelStep, NamedChange

LEAST_STEP: Final = 0.02
"""The least relative difference of a step whose functions are shown."""

LEAST_PART: Final = 0.005
"""The least difference of a layer or a function, relative to the cost before."""

MOST_FUNCTIONS: Final = 8
NO_GROUPS: Final = ("compiler",)
"""Groups of options that another column of the table shows."""


def tables_of(analysis: Analysis) -> list[Table]:
    """The kernels, the steps, and the functions behind the larger steps; none without steps."""
    if not analysis.steps:
        return []
    return [kernel_table(analysis), step_table(analysis.steps), function_table(analysis.steps)]


def kernel_table(analysis: Analysis) -> Table:
    """The kernels with their compilers, and the options that differ from the kernel before."""
    rows = [
        (
            kernel.name,
            kernel.version,
            kernel.compiler,
            "; ".join(
                f"{pair.option} {pair.first} to {pair.second}"
                for pair in kernel.changed
                if pair.group not in NO_GROUPS
            ),
        )
        for kernel in analysis.kernels
    ]
    columns = (
        "kernel",
        "version",
        "compiler",
        "options that differ from the kernel before (n: not set)",
    )
    return Table.of_texts("Kernels", columns, rows)


def step_table(steps: tuple[KernelStep, ...]) -> Table:
    """The cost of a unit of work on neighbouring kernels, and the layers that changed."""
    rows = [
        (
            levels_text(step),
            f"{step.claim.quantity} to {step.claim.subject}",
            number_text(step.claim.detail.first),
            number_text(step.claim.detail.second),
            change_text(step),
            parts_text(step.layers, step),
        )
        for step in steps
    ]
    columns = ("scenario", "kernels", "before", "after", "change", "layers")
    title = "Instructions of a unit of work from kernel to kernel"
    return Table.of_texts(title, columns, rows, columns[2:5])


def change_text(step: KernelStep) -> str:
    """The ratio of the costs with its interval; with too few runs for one, their difference."""
    first, second = step.claim.detail.first, step.claim.detail.second
    return ratio_text(step.claim) if step.claim.value else f"{100 * (second / first - 1):+.1f} %"


def function_table(steps: tuple[KernelStep, ...]) -> Table:
    """The functions behind the steps of at least `LEAST_STEP`."""
    rows = [
        (
            levels_text(step),
            f"{step.claim.quantity} to {step.claim.subject}",
            parts_text(step.functions[:MOST_FUNCTIONS], step) or "none alone",
        )
        for step in steps
        if abs(step.claim.detail.second / step.claim.detail.first - 1) >= LEAST_STEP
    ]
    title = (
        f"Functions behind each step of {100 * LEAST_STEP:g} % or more: the difference of their "
        "instructions (new, gone: under 0.05 % on the other kernel)"
    )
    return Table.of_texts(title, ("scenario", "kernels", "functions"), rows)


def levels_text(step: KernelStep) -> str:
    """The other factors of a step, as `nginx, connections 4`."""
    levels = dict(step.levels)
    first = [str(levels.pop("traffic"))] if "traffic" in levels else []
    return ", ".join([*first, *(f"{name} {level}" for name, level in levels.items())])


def parts_text(parts: tuple[NamedChange, ...], step: KernelStep) -> str:
    """The larger differences, as `tcp +120, driver -30`."""
    least = LEAST_PART * step.claim.detail.first
    return ", ".join(part_text(part) for part in parts if abs(part[2] - part[1]) >= least)


def part_text(part: NamedChange) -> str:
    """A name with its difference."""
    name, before, after = part
    mark = "" if before and after else " (new)" if after else " (gone)"
    return f"{name} {after - before:+,.0f}{mark}"
