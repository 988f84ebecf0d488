"""The cost of a request as a fixed cost and a cost for each segment.

    cost(n) = fixed + each n, a line through the costs at two numbers of segments

Source: Clark, Jacobson, Romkey and Salwen, *An Analysis of TCP Processing Overhead*, IEEE
Communications Magazine 27(6), 1989, who divide protocol processing into a fixed cost and a cost
that grows with the data.

The model assumes that every segment costs the same: there is no segmentation offload, and large
responses cause no more cache misses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError
from perpacket_lab.models.checks import numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Line:
    """The cost of a request: `fixed` for any size and `each` for a segment, in the same unit."""

    fixed: float
    each: float

    def cost(self, segments: ArrayLike) -> NDArray[np.float64]:
        """The cost for numbers of segments (sent and received), in the line's unit."""
        return self.fixed + self.each * numbers("segments", segments, positive=True)


def line(first: tuple[float, float], second: tuple[float, float]) -> Line:
    """The line through two points, each a pair: segments per request, and cost of the request.

    Raises `ConfigurationError` if the numbers of segments are equal.
    """
    (few, low), (many, high) = first, second
    numbers("segments", (few, many), positive=True)
    numbers("cost", (low, high))
    if few == many:
        raise ConfigurationError(
            f"segments = {few:g} twice: expected two sizes",
            parameter="segments",
            value=f"{few:g}",
            allowed="use the costs of requests that differ in size",
        )
    each = (high - low) / (many - few)
    return Line(low - each * few, each)


def share(part: Line, whole: Line, segments: ArrayLike) -> NDArray[np.float64]:
    """The share of a part in the whole cost, as a fraction, for numbers of segments."""
    shares: NDArray[np.float64] = part.cost(segments) / whole.cost(segments)
    return shares
