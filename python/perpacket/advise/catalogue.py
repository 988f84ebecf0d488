"""The catalogue: each change that can be advised or tried, as data.

Each file of `changes/` describes one change: its mechanism and values, the setting or option, the
evidence that makes it worth trying, the cost that it can remove, its risk and its source.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perpacket.advise.limit_kinds import What
from perpacket.errors import ConfigurationError

FOLDER = "changes"


class Entry(BaseModel):
    """A table of a change's file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, frozen=True)


class Number(Entry):
    """A value that is a number within bounds."""

    min: float
    max: float
    integer: bool = False

    def accepts(self, value: str) -> bool:
        """Whether a text is such a number."""
        try:
            number = float(value)
        except ValueError:
            return False
        return self.min <= number <= self.max and (number.is_integer() or not self.integer)

    @property
    def text(self) -> str:
        """`a whole number from 0 to 1000`."""
        kind = "a whole number" if self.integer else "a number"
        return f"{kind} from {self.min:g} to {self.max:g}"


class Exclusion(Entry):
    """`[[evidence.except]]`: a reason that excludes the change. The first true one is reported."""

    when: str
    text: str


class MovedLines(Entry):
    """Cache lines that the change keeps from moving between processors, on an emulated machine."""

    value: float = Field(ge=0)
    """Lines per frame sent or received, with the interval `low` to `high` over `n` variants."""
    low: float
    high: float
    n: int
    latency_ns: float = Field(gt=0)
    """The assumed time of one move. It is not measured on the machine that is advised."""
    source: str
    """The study and the points that were compared."""


class BoundRule(Entry):
    """The part of a profile that the change can reduce, and the share that it can remove."""

    moved: MovedLines | None = None
    """With these lines, the bound is their time if that is more than the part of the profile."""
    layers: list[str] = Field(default_factory=list)
    kinds: list[str] = Field(default_factory=list)
    """Kinds of work in these layers; all if empty."""
    frames: list[str] = Field(default_factory=list)
    """Functions; the samples with one of them in their call chain count. `*` may end a name."""
    process: str = ""
    """The processes whose samples count, separated by `|`; all if empty. `*` may end a name."""
    own_code: bool = False
    """Whether all of the process's own code counts too; the profile does not name its functions."""
    callers: list[str] = Field(default_factory=list)
    """With functions: only those that one of these called count. Functions that take a spin lock
    are no callers of the wait for it."""
    within: list[str] = Field(default_factory=list)
    """With functions: only those below one of these in the chain count."""
    without: list[str] = Field(default_factory=list)
    """With functions: chains with one of these do not count."""
    removable: str
    """An expression: the fraction of the part that the change can remove at most."""


class Direction(Entry):
    """`[[evidence.direction]]`: evidence for one value of a change that can go both ways."""

    when: str
    suggest: str
    text: str
    bound: BoundRule | None = None
    """The bound in this direction; that of the change if it has none."""


class Evidence(Entry):
    """Expressions over facts (`facts.py`), and sentences with facts in braces."""

    applies: str = ""
    text: str = ""
    """The evidence of the only direction, whose value is `suggest` of the change."""
    directions: list[Direction] = Field(default_factory=list, alias="direction")
    """The directions, in the order in which they are tried."""
    otherwise: str
    excluded: list[Exclusion] = Field(default_factory=list, alias="except")
    relieves: list[Annotated[What, Field(strict=False)]] = Field(default_factory=list)
    """The limits that the change moves. If one of them limits, the change comes first."""


class Risk(Entry):
    """What may become worse."""

    text: str


class Requirements(Entry):
    """The requirements for applying the change."""

    root: bool = False


class Publication(Entry):
    """The source of a published magnitude."""

    title: str
    figure: str
    """The magnitude; empty if the source has none."""


class InGuest(Entry):
    """`[guest]`: the change on an emulated machine, where it endangers nothing.

    Without a command or an option of the kernel, the guest runs the command of the setting. In all
    texts, `{value}` is replaced. Commands know the number of the server's processors as `$servers`,
    and that of the card's queues as `$queues`, if there are several.
    """

    processors: int = 1
    """The least number of the server's processors."""
    values: list[str] = Field(default_factory=list)
    """The values there, if they are not those of the change."""
    command: str = ""
    """A shell command; `{interface}` is replaced too."""
    kernel_option: str = ""
    """An option of the kernel's command line, for a change that needs another boot."""
    modules: list[str] = Field(default_factory=list)
    """The kernel's modules that the change needs, unless they are built in."""


class Change(Entry):
    """A setting with the values to try."""

    name: str
    title: str
    mechanism: str
    values: list[str] = Field(default_factory=list)
    number: Number | None = None
    free: bool = False
    """Whether any text may be a value. The setting checks the text."""
    suggest: str = ""
    """The value that advice proposes; facts in braces are filled in."""
    action: Literal["try", "advise"] = "try"
    """With `advise`, perpacket never applies the change, because it concerns security or
    isolation."""
    price: str = ""
    """The command that measures a comparable cost, for a change that is never applied."""
    precedence: int = 0
    """The order among changes that are equal otherwise, such as those without a bound."""
    never_suggested: str = ""
    """The reason why advice never proposes the change; empty if it may."""
    setting: dict[str, str] | None = None
    """The table for `settings.open`; None for options of servers, and for advice without a
    trial."""
    server: dict[str, str | dict[str, str]] = Field(default_factory=dict)
    """For each server its option: a text with `{value}`, or a text for each value."""
    guest: InGuest | None = None
    """The change on an emulated machine; None if it cannot have the change."""
    evidence: Evidence | None = None
    bound: BoundRule
    risk: Risk
    needs: Requirements = Field(default_factory=Requirements)
    source: Publication

    @property
    def allowed(self) -> str:
        """The allowed values as a phrase."""
        if self.number is not None:
            return self.number.text
        return "any text" if self.free else " or ".join(self.values)

    def check(self, value: str) -> None:
        """Raise `ConfigurationError` if the value is not one of the change's."""
        if value and (
            self.free
            or value in self.values
            or (self.number is not None and self.number.accepts(value))
        ):
            return
        raise ConfigurationError(
            f"{self.name}={value}: expected {self.allowed}",
            parameter=self.name,
            value=value,
            allowed=f"for example {self.name}={self.example}",
        )

    @property
    def directions(self) -> list[Direction]:
        """The directions of the evidence."""
        if self.evidence is None or self.evidence.directions:
            return [] if self.evidence is None else self.evidence.directions
        return [
            Direction(when=self.evidence.applies, suggest=self.suggest, text=self.evidence.text)
        ]

    @property
    def example(self) -> str:
        """One of the accepted values."""
        named = [one.suggest for one in self.directions] or [self.suggest]
        return next(iter(self.values), "1" if "{" in named[0] else named[0])

    def option(self, server: str, value: str) -> str | None:
        """The option of a server for a value, in the syntax of the server."""
        option = self.server.get(server)
        if option is None or isinstance(option, str):
            return None if option is None else option.replace("{value}", value)
        return option.get(value)


@cache
def load() -> Mapping[str, Change]:
    """Every change by name, in the order of names."""
    folder = resources.files("perpacket.advise") / FOLDER
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=str)
    changes = [read(file.name, file.read_text(encoding="utf-8")) for file in files]
    return {change.name: change for change in changes}


def read(name: str, text: str) -> Change:
    """A change from the text of its file; raises `ConfigurationError` that names the key."""
    try:
        change = Change.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    except ValidationError as error:
        wrong = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        first = wrong[0]  # an unknown key may be a wrong spelling of a missing key
        key = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{name}: {key}: {first['msg'].lower()}") from None
    if name != f"{change.name}.toml":
        raise ConfigurationError(f"{name}: name: expected the name of the file, not {change.name}")
    return change


def find(text: str) -> tuple[Change, str]:
    """The change and the value in a text such as `tso=off`; raises `ConfigurationError`."""
    change, value = _named(text)
    if change.action == "advise":
        price = re.sub(r"\{(\w+)[^}]*\}", lambda fact: fact[1].upper(), change.price)
        raise ConfigurationError(
            f"{text}: perpacket never applies this change: {change.risk.text}",
            parameter="CHANGE",
            value=text,
            hint=f"price it: {price}" if price else "",
        )
    if not value:
        raise _no_value(text, change, change.allowed, change.example)
    change.check(value)
    return change, value


def find_in_guest(text: str) -> tuple[Change, InGuest, str]:
    """The change and the value in a text such as `tso=off`, for an emulated machine.

    Raises `ConfigurationError` if an emulated machine cannot have the change.
    """
    change, value = _named(text)
    if change.guest is None:
        possible = ", ".join(name for name, one in load().items() if one.guest is not None)
        raise ConfigurationError(
            f"{text}: an emulated machine cannot have this change",
            parameter="--change",
            value=text,
            hint=f"expected an option of its server, or one of: {possible}",
        )
    values = change.guest.values
    if not value:
        allowed = " or ".join(values) or change.allowed
        raise _no_value(text, change, allowed, values[0] if values else change.example)
    if values and value not in values:
        raise ConfigurationError(
            f"{text}: expected {' or '.join(values)}", parameter="--change", value=text
        )
    if not values:
        change.check(value)
    return change, change.guest, value


def _named(text: str) -> tuple[Change, str]:
    """The change that a text names, and its value; empty for none."""
    name, _, value = text.partition("=")
    changes = load()
    if name in changes:
        return changes[name], value
    close = get_close_matches(name, changes, n=1)
    raise ConfigurationError(
        f"{text}: there is no change {name}",
        parameter="CHANGE",
        value=text,
        hint=f"did you mean {close[0]}?" if close else "`perpacket advise` names every change",
    )


def _no_value(text: str, change: Change, allowed: str, example: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text}: expected {change.name}=VALUE, with {allowed}",
        parameter="CHANGE",
        value=text,
        allowed=f"for example {change.name}={example}",
    )
