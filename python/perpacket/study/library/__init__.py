"""The studies that come with perpacket: one folder for each published document.

A folder's `__init__.py` holds the points and figures, `published.toml` the document's figures that
a run is compared with; `tr05_450` holds a simulated study and, in `measured.*`, a measured one. The
folder `user` makes studies of the files that users write; `agreement` compares ways with each
other, not with a document.
Depends on `perpacket.run`, `perpacket.analysis.statistics`, `perpacket.models`,
`perpacket.simulation` and `perpacket.measure`; the demo and the command line depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import combinations
from pathlib import Path
from types import ModuleType

from perpacket.errors import ConfigurationError, MissingStudy
from perpacket.run.configuration_file import RunConfiguration
from perpacket.study.study import Study

MODULES = {
    "osdi06": "osdi06",
    "tr05-450": "tr05_450.measured",
    "tr05-450-simulated": "tr05_450",
    "breakdown": "breakdown",
    "web-servers": "web_servers",
    "agreement": "agreement",
    "media-servers": "media_servers",
    "sensitivity": "sensitivity",
    "double-buffer": "double_buffer",
    "router": "router",
    "memory-surface": "machine_numbers.memory",
    "switch-cost": "machine_numbers.switches",
}
"""Name of each study and the module that builds it; a module is imported when asked for."""

MEASURED = (
    *("tr05-450", "breakdown", "web-servers", "agreement"),
    *("media-servers", "sensitivity", "double-buffer"),
    *("router", "memory-surface", "switch-cost"),
)
"""Studies of real servers, with cut and with published levels."""


def names() -> list[str]:
    """The names of all studies."""
    return list(MODULES)


def find(name: str) -> Study:
    """The study of that name, or of the file of that name where it ends in `.toml`.

    Raises `MissingStudy` naming those there are, and what `user.load` raises.
    """
    if is_file(name):
        from perpacket.study import user

        return user.load(Path(name))
    study: Study = _module(name).study()
    return study


def is_file(name: str) -> bool:
    """Whether a name is that of a user's file."""
    return name.endswith(".toml")


def find_measured(
    name: str, *, full: bool = False, only: tuple[str, ...] = (), plane: str | None = None
) -> Study:
    """A measured study with published levels (`full`) or cut ones, of `only` some experiments.

    `plane` keeps a router's experiments over that plane. Raises `MissingStudy` as `find` does, and
    `ConfigurationError` when the study is simulated or has no such experiment or plane.
    """
    if name in MODULES and name not in MEASURED:
        raise ConfigurationError(
            f"study {name} is simulated: its levels are those of its document",
            parameter="study",
            value=name,
            hint=f"--full and --only are for {', '.join(MEASURED)}",
        )
    module = _module(name)
    if plane is not None:
        only = _over_plane(name, module.EXPERIMENTS, only, plane)
    study: Study = module.study(full=full, only=only)
    return study


def _over_plane(
    name: str, experiments: tuple[str, ...], only: tuple[str, ...], plane: str
) -> tuple[str, ...]:
    """The experiments over a plane, their names' last part; `tcp` is one over whichever it is."""
    found = tuple(one for one in experiments if one.endswith(f"-{plane}"))
    if not found:
        raise ConfigurationError(
            f"study {name} has no --plane {plane}: that is for routers",
            parameter="--plane",
            value=plane,
            hint="leave it out, or run study router",
        )
    wanted = {f"{one.removesuffix(f'-{plane}')}-{plane}" for one in only}
    if wanted - set(found):
        raise ConfigurationError(
            f"--only {','.join(only)} over --plane {plane}: no such experiment",
            parameter="--only",
            value=",".join(only),
            hint=f"study {name} has {', '.join(experiments)}",
        )
    return tuple(one for one in found if not only or one in wanted)


def of_run(configuration: RunConfiguration) -> Study:
    """The study of a run: of a measured one, with the points and the scope that the run has."""
    if configuration.definition:
        from perpacket.study import user

        return user.of_run(configuration)
    name = configuration.study
    if name not in MODULES:
        raise MissingStudy(
            f"the run is of study {name}, which does not come with perpacket, and it has no "
            "study.toml",
            hint="restore that file from a copy, or run the study anew into another directory",
        )
    if name not in MEASURED:
        return find(name)
    names = {point.name for point in configuration.points}
    for full, only in _scopes(_module(name)):
        study = find_measured(name, full=full, only=only)
        own = {point.name: point for point in study.points}
        if names <= own.keys() and all(
            point.overrides[: len(own[point.name].overrides)] == own[point.name].overrides
            for point in configuration.points
        ):
            command = study.command + " --full" * full
            command += f" --only {','.join(only)}" if only else ""
            kept = tuple(point for point in study.points if point.name in names)
            return replace(study.limited_to(kept), command=command)
    raise ConfigurationError(
        f"study {name} has no such points as this run: another version of perpacket began it",
        parameter="study",
        value=name,
        hint=f"report it with perpacket {configuration.perpacket}",
    )


def _scopes(module: ModuleType) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Every way to ask for a study, the smaller ones first; what is run unasked has no names."""
    experiments: tuple[str, ...] = module.EXPERIMENTS
    unasked: tuple[str, ...] = getattr(module, "DEFAULT", experiments)
    for count in range(1, len(experiments) + 1):
        for only in combinations(experiments, count):
            yield from ((full, () if only == unasked else only) for full in (False, True))


def _module(name: str) -> ModuleType:
    module = MODULES.get(name)
    if module is None:
        raise MissingStudy(
            f"no study {name!r}",
            hint=f"there are {', '.join(MODULES)}; a study of your own is a file that ends in "
            ".toml: `perpacket study new` prints one",
        )
    return import_module(f"perpacket.study.library.{module}")
