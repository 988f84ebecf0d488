"""`perpacket serve`, `load`, `link`, `bench`, `route`, `profile`, `export`: the verbs of the agent.

The agent defines their options, help and tables, because machines under test may have no Python.
These verbs replace this process by the agent, which then handles signals and the terminal. The
agent runs as a child only if this process must do more when the agent has ended: print a line of
advice below the table of a profile, or end an application.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import typer

from perpacket import lab
from perpacket.cli import options, progress

VERBS = {
    "serve": "Run a server under test in the foreground until a signal.",
    "load": "Load a server and report its throughput and latency.",
    "media": "Generate media files to serve.",
    "link": "Join two hosts by a link with latency, bandwidth and loss.",
    "bench": "Measure the cost of memory accesses and context switches on this machine.",
    "route": "Check a router's forwarding and measure its throughput.",
    "profile": "Report the cost of a packet, layer by layer; `profile compare A B` compares two.",
    "export": "Serve the cost of packets as counters for Prometheus.",
}
"""Each verb with its line in `perpacket --help`."""


def add_to(app: typer.Typer) -> None:
    """List the verbs in the help. `run` handles them before typer parses arguments."""
    for verb, summary in VERBS.items():
        app.command(verb, help=summary, rich_help_panel=options.MEASURE)(never_called)


def never_called() -> None:
    """Represent a verb in the help."""


def become(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the agent, with unchanged arguments.

    Raises `MachineLacks` when there is no agent.
    """
    from perpacket.measure import agent

    program = str(agent.find())
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, ["perpacket", *arguments])


def run(arguments: Sequence[str]) -> int:
    """Run a verb of the agent; returns only if the agent has not replaced this process."""
    if list(arguments[:2]) == ["profile", "compare"]:
        from perpacket.cli import profile_compare

        return profile_compare.run(arguments[2:])
    if arguments[0] == "profile":
        own = own_options(arguments)
        if any(word.partition("=")[0] == "--hosts" for word in own):
            return profile_of_hosts(value_of(own, "--hosts"), arguments[1:])
        arguments = with_process(arguments)
        if prints_table(arguments[1:]):
            return profile(arguments)
    if list(arguments[:2]) == ["load", "http"] and (name := value_of(arguments, APPLICATION)):
        return load_application(name, arguments)
    become(arguments)


APPLICATION = "--application"
"""The option of `load http` and `profile` that names an application."""


def applications(module: str) -> ModuleType:
    """A module of the lab about real web applications."""
    return lab.load(f"measure.applications.{module}", APPLICATION)


def with_process(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments of `profile`, with `--pid PID` in place of `--application NAME`.

    PID is the process that started the application's programs. Raises `RunFailed` if the
    application is not running.
    """
    own = own_options(arguments)
    name = value_of(own, APPLICATION)
    if not name:
        return arguments
    file, running = applications("file"), applications("running")
    pid = str(running.require(file.load(name).name).pid)
    place = next(index for index, word in enumerate(own) if word.startswith(APPLICATION))
    words = 2 if own[place] == APPLICATION else 1
    return [*arguments[:place], "--pid", pid, *arguments[place + words :]]


def load_application(name: str, arguments: Sequence[str]) -> int:
    """Run `load http --application NAME`: the agent's clients request the application's pages.

    The agent receives the path of the application's sessions in place of the name. Without a URL,
    the clients use the running application, or this function runs one for the load.
    """
    from perpacket.measure import agent

    if Path(name).is_file():
        become(arguments)
    file, running, sessions = map(applications, ("file", "running", "sessions"))
    definition = file.load(name)
    words = [
        str(definition.sessions) if word == name and before == APPLICATION else word
        for before, word in zip(["", *arguments[:-1]], arguments, strict=True)
    ]
    words = [
        f"{APPLICATION}={definition.sessions}" if word == f"{APPLICATION}={name}" else word
        for word in words
    ]
    if any(word.startswith(("http://", "https://")) for word in words):
        become(words)
    with running.present_or_started(definition) as url:
        options = [*words[2:], *sessions.trust(definition)]
        return run_child([str(agent.find()), *words[:2], url, *options])


WITHOUT_ADVICE = (
    "--help",
    "-h",
    "--quiet",
    "-q",
    "--show-config",
    "--self-check",
    "--config",
    "--perf",
)
"""Options with which a profile may print no table, so that no advice follows."""


def prints_table(options: Sequence[str]) -> bool:
    """Whether a profile with these options samples call chains and prints a table."""
    own = own_options(options)
    if any(
        word in WITHOUT_ADVICE or word.startswith(("--config=", "--every", "--perf="))
        for word in own
    ):
        return False
    return value_of(own, "--format") in ("", "table") and value_of(own, "--events") != "accounts"


def own_options(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments before the command of a profile."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


NOT_OF_HOSTS = ("--every", "--folded", "--pprof", "--perf", "--self-check", "--config", "--")
"""Options that make no sense for several machines, or that would write files on them."""


def profile_of_hosts(names: str, options: Sequence[str]) -> int:
    """Run `profile --hosts`: one profile of each machine, in one table."""
    from perpacket.cli import hosts
    from perpacket.cli.failure import ExitStatus
    from perpacket.cli.options import Format
    from perpacket.errors import ConfigurationError

    for word in options:
        if word.partition("=")[0] in NOT_OF_HOSTS:
            raise ConfigurationError(
                f"{word}: cannot be used with --hosts",
                parameter=word,
                hint="`perpacket top --hosts` prints windows",
            )
    given = value_of(options, "--format") or Format.TABLE
    if given not in (Format.TABLE, Format.JSON):
        raise ConfigurationError(f"--format {given}: expected table or json", parameter="--format")
    quiet = any(word in ("--quiet", "-q") for word in options)
    rest = [word for word in options if word not in ("--quiet", "-q")]
    for name in ("--hosts", "--format"):
        rest = without(rest, name)
    hosts.profile(names, rest, Format(given), quiet)
    return ExitStatus.DONE


def without(options: Sequence[str], name: str) -> list[str]:
    """The options without `--name VALUE` and `--name=VALUE`."""
    return [
        word
        for before, word in zip(["", *options], options, strict=False)
        if name not in (before, word.partition("=")[0])
    ]


def value_of(options: Sequence[str], name: str) -> str:
    """The value of `--name VALUE` or `--name=VALUE`; empty without it."""
    for index, word in enumerate(options):
        if word == name:
            return options[index + 1] if index + 1 < len(options) else ""
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def profile(arguments: Sequence[str]) -> int:
    """Run `perpacket profile`, then print the change most worth trying."""
    from perpacket.advise import glance
    from perpacket.measure import agent
    from perpacket.measure.hosts.record import temporary_folder
    from perpacket.show import advice

    program = str(agent.find())
    pid = value_of(arguments, "--pid")
    stored = value_of(arguments, "--folded")
    try:
        counters = glance.CountersAroundProfile(int(pid) if pid else None)
    except (OSError, ValueError):
        become(arguments)  # the agent reports what is wrong with the process
    with temporary_folder("profile") as folder:
        stacks = Path(stored) if stored else folder / "stacks"
        options = [] if stored else ["--folded", str(stacks)]
        status = run_child([program, "profile", *options, *arguments[1:]])
        report = counters.report(stacks) if status == 0 else None
        line = "" if report is None else advice.next_line(report)
        if line:
            progress.note(line, quiet=False)
    return status


def run_child(command: Sequence[str]) -> int:
    """Run a program on this terminal and return its exit status, 128 + N after signal N.

    The program receives Ctrl-C from the terminal; this function passes SIGTERM on.
    """
    sys.stdout.flush()
    child = subprocess.Popen(command)
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate()),
    }
    try:
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
