"""The colours of a report. Each has a name, a value for light pages and a value for dark pages.

The hues are those of Okabe and Ito, "Color Universal Design" (2008), which readers with the common
kinds of colour blindness can distinguish. Dark values are lighter where the contrast of the
original with a dark page is under 3:1. Charts are drawn with the light values. `with_variables`
replaces them by CSS variables, so that the page selects the values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple


class Tone(NamedTuple):
    """A colour: the name of its CSS variable, and its `#rrggbb` on light and on dark pages."""

    name: str
    light: str
    dark: str


INK: Final = Tone("ink", "#1b1d21", "#eceef1")
MUTED: Final = Tone("muted", "#565b63", "#a8aeb7")
RULE: Final = Tone("rule", "#d5d9de", "#3a4048")
FAINT: Final = Tone("faint", "#f3f5f7", "#1f2329")
PAPER: Final = Tone("paper", "#ffffff", "#14171b")

BLUE: Final = Tone("blue", "#0072b2", "#4aa8e0")
VERMILLION: Final = Tone("vermillion", "#d55e00", "#ff8a3d")
GREEN: Final = Tone("green", "#009e73", "#2cc79a")
PURPLE: Final = Tone("purple", "#cc79a7", "#dd94bd")
ORANGE: Final = Tone("orange", "#e69f00", "#f0b432")
NAVY: Final = Tone("navy", "#004c78", "#2a7cae")
SKY: Final = Tone("sky", "#56b4e9", "#9bd6fb")
YELLOW: Final = Tone("yellow", "#f0e442", "#f5ec6e")
GREY: Final = Tone("grey", "#8b919a", "#7d848e")
SILVER: Final = Tone("silver", "#b9bec6", "#585f69")

# For words, not areas: at least 4.5:1 against the page.
GOOD: Final = Tone("good", "#00664b", "#41d3a8")
BAD: Final = Tone("bad", "#a34400", "#ff9a57")

TONES: Final = (
    INK, MUTED, RULE, FAINT, PAPER, GOOD, BAD,
    BLUE, NAVY, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW, GREY, SILVER,
)  # fmt: skip

# The order of the series' colours: those that are clearest as thin lines come first.
SERIES_TONES: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK, GREY)

# A layer keeps its colour in every chart; neighbours in the stack differ in lightness too.
LAYER_TONES: Final = {
    "user": SKY,
    "syscall": ORANGE,
    "socket": YELLOW,
    "tcp": BLUE,
    "udp": NAVY,
    "ip": GREEN,
    "ethernet": PURPLE,
    "driver": VERMILLION,
    "bypass": INK,
    "interrupt": MUTED,
    "scheduler": SILVER,
    "other": GREY,
    "other_programs": RULE,
    "idle": FAINT,
}

# Names outside the vocabulary of layers, such as parts of an application.
OTHER_TONES: Final = (SILVER, SKY, BLUE, GREEN, PURPLE, ORANGE, YELLOW, NAVY, GREY, INK)


def variables(dark: bool) -> str:
    """The tones as CSS declarations, `--name: #rrggbb;`, for a light or a dark page."""
    return " ".join(f"--{tone.name}: {tone.dark if dark else tone.light};" for tone in TONES)


def with_variables(svg: str) -> str:
    """The SVG with every fill and stroke of a light tone replaced by its CSS variable."""
    return _with_tones(svg, {tone.light: f"var(--{tone.name})" for tone in TONES})


def with_dark_tones(svg: str) -> str:
    """The SVG with every fill and stroke of a light tone replaced by the dark one."""
    return _with_tones(svg, {tone.light: tone.dark for tone in TONES})


def _with_tones(svg: str, tones: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        tone = tones.get(match["colour"].lower())
        return f'{match["property"]}="{tone}"' if tone else match[0]

    return re.sub(r'(?P<property>fill|stroke)="(?P<colour>#[0-9A-Fa-f]{6})"', replaced, svg)
