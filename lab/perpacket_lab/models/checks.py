"""Checks of a model's inputs against its assumptions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Numbers = NDArray[np.float64]


def numbers(
    name: str,
    values: ArrayLike,
    *,
    low: float = 0.0,
    high: float = math.inf,
    positive: bool = False,
) -> Numbers:
    """`values` as an array of finite floats from `low` to `high`; above `low` if `positive`.

    No model needs an infinite number, because infinite speed is a time of 0. Raises
    `ConfigurationError` with the name, the first wrong value, and the accepted range.
    """
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    fits = (array > low if positive else array >= low) & (array <= high) & np.isfinite(array)
    if not np.all(fits):
        wrong = array[~fits].flat[0]
        floor = f"above {low:g}" if positive else f"at least {low:g}"
        allowed = f"{floor} and finite" if math.isinf(high) else f"{floor} and at most {high:g}"
        raise ConfigurationError(
            f"{name} = {wrong:g}: expected {allowed}",
            parameter=name,
            value=f"{wrong:g}",
            allowed=f"use {name} {allowed}",
        )
    return array
