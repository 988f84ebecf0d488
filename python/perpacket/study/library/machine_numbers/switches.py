"""The cost of a context switch over the number of threads or processes that take turns.

Isa 2003, section 4.3.2, Figure 4.4: 2 to 128 threads. It rises with threads on both of its systems,
and costs almost twice as much on the one as on the other.
"""

from __future__ import annotations

from perpacket.measure.bench.runs import KINDS
from perpacket.study.library.machine_numbers import Question, bench_point, bench_study
from perpacket.study.study import Figure, Point, Study

NAME = "switch-cost"
EXPERIMENTS = ("pinned", "free")

MEMBERS = {False: (2, 8, 32, 128), True: (2, 4, 8, 16, 32, 64, 128)}
WORKING_SETS_BYTES = {False: (0, 65_536), True: (0, 4096, 16_384, 65_536)}
LIMIT_S = 0.2
"""Most time for a point whose interval stays wider than 2 %, as `bench switch` has it."""


def point(kind: str, members: int, working_set_bytes: int, pinned: bool) -> Point:
    """One ring."""
    placed = "pinned" if pinned else "free"
    made = bench_point(
        f"{kind}-{members}-{working_set_bytes}b-{placed}",
        "switch",
        {
            "kind": kind,
            "members": members,
            "working_set_bytes": working_set_bytes,
            "placed": placed,
        },
        {
            "members_kind": kind,
            "members": members,
            "working_set_bytes": working_set_bytes,
            "pinned": str(pinned).lower(),
        },
    )
    limit = ("run.duration_s", str(LIMIT_S))
    return Point(made.name, made.configuration, made.factors, (*made.overrides, limit))


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some experiments."""
    return tuple(
        point(kind, members, working_set_bytes, placed == "pinned")
        for placed in EXPERIMENTS
        if placed in experiments
        for kind in KINDS
        for members in MEMBERS[full]
        for working_set_bytes in WORKING_SETS_BYTES[full]
    )


def figures() -> tuple[Figure, ...]:
    """The cost over members, threads beside processes, and what working sets add."""
    found = []
    for placed in EXPERIMENTS:
        where = "on one processor" if placed == "pinned" else "where the kernel puts them"
        for size_bytes in WORKING_SETS_BYTES[True]:
            read = f", {size_bytes // 1024} KiB read by each" if size_bytes else ""
            found.append(
                Figure(
                    "curve",
                    f"Cost of a context switch {where}{read}",
                    "members",
                    "ns_per_switch",
                    series="kind",
                    where={"placed": placed, "working_set_bytes": size_bytes},
                    x_title="threads or processes in the ring",
                    y_title="ns a switch",
                )
            )
    return tuple(found)


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or all sizes, of both placements or `only` one of them."""
    asked = Question(
        name=NAME,
        title="What a context switch costs",
        question="How does the cost of a context switch grow with the number of threads or "
        "processes that take turns, and with what each of them reads?",
        experiments=EXPERIMENTS,
        points=points,
        figures=figures(),
        published="switches.toml",
        limits=(
            "The published study compares two operating systems on one machine, of which one cost "
            "almost twice the other; here is one system, with threads beside processes.",
            "The cost is the time of a pass of the token less that of the same calls and reading "
            "by one member alone.",
        ),
    )
    return bench_study(asked, full, only)
