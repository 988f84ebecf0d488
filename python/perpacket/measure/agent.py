"""The agent, the executable that runs servers, clients and links: where it is, and what it is sent.

The agent defines its options. Python sends them as a JSON document, and lets the agent read those
that users type.

The package `perpacket-lab-agent` has all verbs, and `perpacket-agent` those that an operator needs.
`PERPACKET_AGENT` names another executable, such as a local build.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from perpacket.errors import ConfigurationError, MachineLacks

OPERATOR = "perpacket-agent"
LAB = "perpacket-lab-agent"
"""The packages of the agent, each with an executable of its name."""

Options = dict[str, object]
"""Options of a verb by name, such as `{"url": "http://h/", "connections": 8}`."""

VARIABLE = "PERPACKET_AGENT"
"""Environment variable that names an agent to use instead of the one installed."""


def find(first: str = LAB) -> Path:
    """The agent of this installation, from the package `first` if that is installed.

    Raises `MachineLacks` when none can be run.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else _installed(first)
    if path is None or not os.access(path, os.X_OK) or not path.is_file():
        source = f"{VARIABLE} names no executable ({named})" if named else "it is not installed"
        raise MachineLacks(
            f"perpacket-agent: {source}",
            "install it with `pip install ./lab/crates/lab-agent`, or build it with "
            f"`cargo build --release -p perpacket-lab-agent` and name it in {VARIABLE}",
        )
    return path.absolute()


def _installed(first: str) -> Path | None:
    """The executable of an installed package; `None` without one."""
    for package in (first, OPERATOR, LAB):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == package:
                return Path(str(file.locate()))
    return None


def words(verb: str, **options: object) -> list[str]:
    """The agent's arguments that run a verb, such as `words("load http", url=url, connections=8)`.

    Options that are None, False or empty are left out.
    """
    return run(verb, {name.strip("_").replace("_", "-"): value for name, value in options.items()})


def run(verb: str, options: Options) -> list[str]:
    """The agent's arguments that run a verb with options by their names, such as `tls-cert`."""
    given = {
        name: value
        for name, value in options.items()
        if value is not None and value is not False and value not in ("", [], ())
    }
    return ["run", json.dumps({verb: given})]


def parsed(arguments: Sequence[str]) -> tuple[str, Options] | None:
    """The verb of a command line and the options that it gives, without defaults.

    None if the agent itself has to answer the command line: it asks for help, or is wrong.
    """
    command = [str(find()), "parse", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    document: dict[str, Options] = json.loads(done.stdout)
    return next(iter(document.items()))


def options_of(verb: str, arguments: Sequence[str], parameter: str) -> Options:
    """The options that a user's words give to a verb.

    Raises `ConfigurationError` with the agent's message if the words are wrong.
    """
    own = [*verb.split(), *arguments]
    if (options := parsed(own)) is not None:
        return options[1]
    done = subprocess.run([str(find()), *own], capture_output=True, text=True, check=False)
    message = next(iter(done.stderr.strip().splitlines()), "not options of the agent")
    raise ConfigurationError(f"{parameter}: {message.removeprefix('error: ')}", parameter=parameter)


def sha256(path: Path) -> str:
    """The file's digest, by which a machine with the same agent is recognized."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
