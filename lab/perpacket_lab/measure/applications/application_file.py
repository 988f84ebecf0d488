"""The file `application.toml`: an application's packages, preparation, programs and sessions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from perpacket.errors import ConfigurationError
from perpacket.validation import FileTable, read_toml

LIBRARY = Path(str(resources.files("perpacket_lab.measure.applications"))) / "library"
"""The folder of the built-in applications, with a folder for each."""

FILE = "application.toml"
COMPONENT = "component.toml"

DESCRIPTION = {"title", "stands_for", "session", "warmup_s", "option"}
"""Keys that do not change the prepared folder."""

CHOICE = "+"
"""Separates an application's name from the option with which it runs."""

PLACEHOLDER = re.compile(r"@([a-z_]+)@")
"""A placeholder in commands and files, such as `@folder@`. Braces would be ambiguous, because TOML,
nginx and Perl use them."""

Part = Literal["web server", "interpreter", "application server", "database"]


class DataArchive(FileTable):
    """A file from a Maven repository."""

    artifact: str = Field(pattern=r"^[^:]+:[^:]+:[^:]+:[^:]+$")
    """`group:name:version:packaging`."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def name(self) -> str:
        """The name that Maven uses for the file."""
        _, name, version, packaging = self.artifact.split(":")
        return f"{name}-{version}.{packaging}"


class ApplicationPackages(FileTable):
    """The packages that must be installed."""

    debian: list[str] = Field(default_factory=list)
    maven: list[DataArchive] = Field(default_factory=list)


class PreparationStep(FileTable):
    """A command of the preparation."""

    command: list[str] = Field(min_length=1)
    during: list[str] = Field(default_factory=list)
    """The programs that run during the command."""


class ApplicationProgram(FileTable):
    """A program of the running application. Programs start in the order of the file."""

    name: str
    part: Part
    command: list[str] = Field(min_length=1)
    ready: str
    """The program is ready when it listens on the port of this name, or when the socket at this
    path exists."""
    log: str = ""
    """The file in the application's folder to which the program writes errors; if empty, the
    program writes them to standard error."""


class Option(FileTable):
    """A variant of the application: settings that replace the application's."""

    title: str
    settings: dict[str, str] = Field(min_length=1)


class Component(FileTable):
    """A part that applications share, such as a database: packages, files, steps, programs."""

    packages: ApplicationPackages = Field(default_factory=ApplicationPackages)
    paths: list[str] = Field(default_factory=list)
    """Folders of programs, before those of PATH."""
    environment: dict[str, str] = Field(default_factory=dict)
    ports: list[str] = Field(default_factory=list)
    """Names of ports; the placeholder of port `web` is `@web_port@`."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Placeholders in files and in commands of programs, with their values."""
    files: list[str] = Field(default_factory=list)
    """Files beside this one, written into the application's folder with placeholders replaced."""
    prepare: list[PreparationStep] = Field(default_factory=list)
    program: list[ApplicationProgram] = Field(default_factory=list)
    session: dict[str, object] = Field(default_factory=dict)
    """The clients' requests; `crates/instruments/load/src/http/application` reads this table."""


class Application(Component):
    """An application: its own component, the components that it uses, its sessions."""

    title: str
    stands_for: str = ""
    """An application of a published document; this application is a substitute for it."""
    uses: list[str] = Field(default_factory=list)
    """Components of the library. Their packages, steps and programs precede the application's."""
    warmup_s: float = Field(default=8, ge=0, le=600)
    """Seconds of load after which the application's code is compiled and its caches are full."""
    tls: bool = False
    """Whether clients use TLS on the port `web`."""
    option: dict[str, Option] = Field(default_factory=dict)
    """Options by name; `NAME+OPTION` names the application with an option."""


@dataclass(frozen=True, slots=True)
class Definition:
    """An application with its components, in order, and the folder of each."""

    name: str
    """The application's name, with the option if any: `wordpress+jit`."""
    application: Application
    parts: Sequence[tuple[Path, Component]]

    @property
    def own_name(self) -> str:
        """The name without an option. All options share the prepared folder."""
        return self.name.partition(CHOICE)[0]

    @property
    def settings(self) -> dict[str, str]:
        """The value of each setting; those of the option replace the application's."""
        texts = {name: text for _, part in self.parts for name, text in part.settings.items()}
        option = self.name.partition(CHOICE)[2]
        return texts | (self.application.option[option].settings if option else {})

    @property
    def sessions(self) -> Path:
        """The file with the sessions: the application's own, or a component's."""
        place = next(place for place, part in reversed(self.parts) if part.session)
        return place / (FILE if place == self.parts[-1][0] else COMPONENT)

    @property
    def debian(self) -> list[str]:
        """The packages of Debian, without repetition."""
        return list(dict.fromkeys(name for _, part in self.parts for name in part.packages.debian))

    @property
    def archives(self) -> list[DataArchive]:
        """The files from Maven."""
        return [library for _, part in self.parts for library in part.packages.maven]

    @property
    def paths(self) -> list[str]:
        """Folders of programs."""
        return [path for _, part in self.parts for path in part.paths]

    @property
    def ports(self) -> list[str]:
        """Names of ports, in order."""
        return [name for _, part in self.parts for name in part.ports]

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of every program and step, with placeholders."""
        return {name: text for _, part in self.parts for name, text in part.environment.items()}

    @property
    def programs(self) -> list[ApplicationProgram]:
        """The programs in the order of their starts."""
        return [program for _, part in self.parts for program in part.program]

    @property
    def uses_agent(self) -> bool:
        """Whether a command names the agent."""
        commands = [step.command for _, step in self.steps()]
        commands += [program.command for program in self.programs]
        return any("@agent@" in command for command in commands)

    def steps(self) -> Iterator[tuple[Path, PreparationStep]]:
        """The steps of the preparation, each with the folder of its component."""
        for folder, part in self.parts:
            for step in part.prepare:
                yield folder, step

    def fingerprint(self, versions: str) -> str:
        """A digest of everything that the preparation depends on, 16 characters long.

        It includes the versions of packages. It does not include the keys in `DESCRIPTION`.
        """
        digest = hashlib.sha256(versions.encode())
        for folder, part in self.parts:
            digest.update(
                part.model_dump_json(exclude=DESCRIPTION, exclude_defaults=True).encode() + b"\0"
            )
            for name in part.files:
                digest.update((folder / name).read_bytes() + b"\0")
        return digest.hexdigest()[:16]


def names() -> list[str]:
    """The applications of the library."""
    return sorted(file.parent.name.replace("_", "-") for file in LIBRARY.glob(f"*/{FILE}"))


def load(name: str) -> Definition:
    """An application of the library, or of a folder if `name` has a slash.

    `NAME+OPTION` is the application with one of its options.

    Raises `ConfigurationError` with the file, the key and what was expected.
    """
    name, choice, option = name.partition(CHOICE)
    folder = Path(name) if "/" in name else LIBRARY / name.replace("-", "_")
    if not (folder / FILE).is_file():
        raise ConfigurationError(
            f"{name}: there is no application of that name",
            parameter="NAME",
            value=name,
            allowed=f"expected one of {', '.join(names())}, or the path of a folder, with a slash",
        )
    application = read_toml(folder / FILE, Application)
    for used in application.uses:
        if not (LIBRARY / used / COMPONENT).is_file():
            raise ConfigurationError(f"uses: there is no component {used}")
    components = [
        (LIBRARY / used, read_toml(LIBRARY / used / COMPONENT, Component))
        for used in application.uses
    ]
    if choice and option not in application.option:
        raise ConfigurationError(
            f"{name}: there is no option {option}",
            parameter="NAME",
            value=f"{name}{choice}{option}",
            allowed=f"there are {', '.join(application.option) or 'none'}",
        )
    definition = Definition(
        folder.resolve().name.replace("_", "-") + choice + option,
        application,
        [*components, (folder, application)],
    )
    check_ports(folder / FILE, definition)
    check_options(folder / FILE, definition)
    if not any(part.session for _, part in definition.parts):
        raise ConfigurationError(f"{folder / FILE}: session: expected a table")
    return definition


def check_options(file: Path, definition: Definition) -> None:
    """Raise `ConfigurationError` for an option with an unknown setting."""
    known = {name for _, part in definition.parts for name in part.settings}
    for option, content in definition.application.option.items():
        if unknown := set(content.settings) - known:
            raise ConfigurationError(
                f"{file}: option.{option}.settings: there is no setting {min(unknown)}"
            )


def check_ports(file: Path, definition: Definition) -> None:
    """Raise `ConfigurationError` for a missing port `web`, or a program on an unknown one."""
    if "web" not in definition.ports:
        raise ConfigurationError(f"{file}: ports: expected a port of the name web")
    for program in definition.programs:
        if "@" not in program.ready and program.ready not in definition.ports:
            raise ConfigurationError(
                f"{file}: program {program.name}: ready: there is no port {program.ready}"
            )
    known = {program.name for program in definition.programs}
    for _, step in definition.steps():
        if unknown := set(step.during) - known:
            raise ConfigurationError(f"{file}: prepare.during: no program {min(unknown)}")
