"""What memory costs a processor, in cycles. Source: Isa 2003, section 3.3.1, equations 3.1 to 3.5.

Assumes that every miss stalls for its whole penalty: processors that overlap misses do better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpacket.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def stall_cycles(
    instructions: ArrayLike,
    miss_rate: ArrayLike,
    penalty_cycles: ArrayLike,
    accesses_per_instruction: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Cycles spent waiting: instructions x accesses x miss rate x penalty (eq. 3.1, 3.2).

    `miss_rate` is a fraction of the accesses.
    """
    stalls: NDArray[np.float64] = (
        numbers("instructions", instructions)
        * numbers("accesses per instruction", accesses_per_instruction)
        * numbers("miss rate", miss_rate, high=1.0)
        * numbers("penalty", penalty_cycles)
    )
    return stalls


def cache_overhead(miss_rate: ArrayLike, penalty_cycles: ArrayLike = 10.0) -> NDArray[np.float64]:
    """Time with this cache over time with memory as fast as the cache: 1 + miss rate x penalty.

    Equations 3.4 and 3.5; 10 cycles is the penalty the source takes.
    """
    rate = numbers("miss rate", miss_rate, high=1.0)
    overhead: NDArray[np.float64] = 1.0 + rate * numbers("penalty", penalty_cycles)
    return overhead


def sequential_miss_rate(word_bytes: ArrayLike, line_bytes: ArrayLike) -> NDArray[np.float64]:
    """Share of a sequential read's accesses that miss: W/L for W-byte words in L-byte lines.

    Section 3.3.1. Its example prints 6.25 % for 16 words in a line; with the 32-byte lines and
    4-byte words it also states, this is 12.5 %.
    """
    line = numbers("line", line_bytes, positive=True)
    word = numbers("word", word_bytes, positive=True)
    rate: NDArray[np.float64] = numbers("word over line", word / line, high=1.0)
    return rate
