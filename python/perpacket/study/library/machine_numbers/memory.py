"""Bandwidth over working set and stride, latency of dependent loads, and where caches end.

Isa 2003, section 4.3.1, Figure 4.3: throughput falls as the block outgrows the caches. The surface
is the extended copy transfer characterization of Stricker and Gross (HPCA 1997).
"""

from __future__ import annotations

from perpacket.study.library.machine_numbers import Question, bench_point, bench_study
from perpacket.study.study import Figure, Level, Point, Study

NAME = "memory-surface"
EXPERIMENTS = ("surface", "chain")

OPERATIONS = ("load", "store", "copy")
PARTS = {"load": 1, "store": 1, "copy": 2}
"""Blocks of equal size that a working set is divided into: a copy reads one and writes another."""

WORD_BYTES = 8
SMALLEST_BYTES = 512
LARGEST_BYTES = {False: 128 * 2**20, True: 512 * 2**20}
SIZE_RATIO = {False: 4, True: 2}
STRIDES_WORDS = {False: (1, 4, 16, 64, 256), True: (1, 2, 4, 8, 16, 32, 64, 128, 256)}

CHAIN_SMALLEST_BYTES = 4096

SIZE = "working set (bytes)"
BANDWIDTH = "MB/s (10^6)"
PUBLISHED_LINE = (
    "Published: over 5000 MB/s in cache, then 3200, the bus, and less past the 512 KB second level."
)
COUNTING = (
    "Bytes read plus bytes written by the program: a copied byte counts twice. Lines that a store "
    "brings into the cache are not counted."
)


def sizes_bytes(full: bool) -> tuple[int, ...]:
    """Working sets from the smallest to the largest."""
    found = [SMALLEST_BYTES]
    while found[-1] < LARGEST_BYTES[full]:
        found.append(min(found[-1] * SIZE_RATIO[full], LARGEST_BYTES[full]))
    return tuple(found)


def surface_point(operation: str, size_bytes: int, stride_words: int) -> Point:
    """One place of the surface."""
    levels: dict[str, Level] = {
        "operation": operation,
        "working_set_bytes": size_bytes,
        "stride_words": stride_words,
    }
    name = f"{operation}-{size_bytes}b-{stride_words}w"
    return bench_point(name, "surface", levels, dict(levels))


def chain_point(size_bytes: int) -> Point:
    """The latency of dependent loads in one working set."""
    levels: dict[str, Level] = {
        "operation": "chain",
        "working_set_bytes": size_bytes,
        "stride_words": 0,
    }
    return bench_point(f"chain-{size_bytes}b", "chain", levels, {"working_set_bytes": size_bytes})


def edges_point() -> Point:
    """The whole chain in one go, from which the edges of the caches are found."""
    levels: dict[str, Level] = {"operation": "edges", "working_set_bytes": 0, "stride_words": 0}
    return bench_point("edges", "edges", levels, {})


def fits(operation: str, size_bytes: int, stride_words: int) -> bool:
    """Whether a block holds two words that far apart."""
    return 2 * stride_words <= size_bytes // WORD_BYTES // PARTS[operation]


def points(full: bool, experiments: tuple[str, ...] = EXPERIMENTS) -> tuple[Point, ...]:
    """The points of some experiments."""
    found: list[Point] = []
    if "surface" in experiments:
        found += [
            surface_point(operation, size_bytes, stride_words)
            for operation in OPERATIONS
            for size_bytes in sizes_bytes(full)
            for stride_words in STRIDES_WORDS[full]
            if fits(operation, size_bytes, stride_words)
        ]
    if "chain" in experiments:
        sizes = [size for size in sizes_bytes(full) if size >= CHAIN_SMALLEST_BYTES]
        found += [chain_point(size_bytes) for size_bytes in sizes]
        found.append(edges_point())
    return tuple(found)


def figures() -> tuple[Figure, ...]:
    """The surfaces, the line for stride 1, the chain."""
    return (
        *(
            Figure(
                "heat-map",
                f"Bandwidth of {operation}",
                "stride_words",
                "mbytes_per_s",
                series="working_set_bytes",
                where={"operation": operation},
                x_title="stride (words of 8 bytes)",
                y_title=BANDWIDTH,
                caption=COUNTING if operation == "copy" else "",
            )
            for operation in OPERATIONS
        ),
        Figure(
            "curve",
            "Bandwidth at stride 1",
            "working_set_bytes",
            "mbytes_per_s",
            series="operation",
            where={"stride_words": 1},
            x_title=SIZE,
            y_title=BANDWIDTH,
            caption=PUBLISHED_LINE,
        ),
        Figure(
            "curve",
            "Latency of dependent loads",
            "working_set_bytes",
            "latency_ns",
            where={"operation": "chain"},
            x_title=SIZE,
            y_title="latency (ns)",
        ),
    )


def study(full: bool = False, only: tuple[str, ...] = ()) -> Study:
    """The study with cut or all sizes and strides, of both experiments or `only` one of them."""
    asked = Question(
        name=NAME,
        title="What this machine's memory gives",
        question="How does the bandwidth of one core depend on how much memory is used and how far "
        "accesses are apart, and where do the caches end?",
        experiments=EXPERIMENTS,
        points=points,
        figures=figures(),
        published="memory.toml",
        limits=(
            "One core on its own: others that use memory at the same time leave it less.",
            "Loads sum words of 64 bits as a compiler without wider registers does; in cache they "
            "depend on that.",
        ),
    )
    return bench_study(asked, full, only)
