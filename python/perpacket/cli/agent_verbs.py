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
from typing import TYPE_CHECKING, NoReturn

import typer

from perpacket import lab
from perpacket.cli import options, progress

if TYPE_CHECKING:
    from perpacket.measure.agent import Options

VERBS = {
    "serve": "Run a server under test in the foreground until a signal.",
    "load": "Load a server and report its throughput and latency.",
    "media": "Generate media files to serve.",
    "link": "Join two hosts by a link with latency, bandwidth and loss.",
    "bench": "Measure the cost of memory accesses and context switches on this machine.",
    "route": "Check a router's forwarding and measure its throughput.",
    "capture": "Collect what `advise` reads into one file; `capture --script` needs no perpacket.",
    "profile": "Report the cost of a packet, layer by layer, here or in a file of `capture`; "
    "`profile compare A B` compares two.",
    "export": "Serve the cost of packets as counters for Prometheus.",
}
"""Each verb with its line in `perpacket --help`."""

LAB_VERBS = ("bench", "media", "route")
"""Verbs of the lab's agent; so are `serve media` and `load media`."""


def add_to(app: typer.Typer) -> None:
    """List the verbs in the help. `run` handles them before typer parses arguments."""
    for verb, summary in VERBS.items():
        panel = options.IMPROVE if verb == "capture" else options.MEASURE
        app.command(verb, help=summary, rich_help_panel=panel)(never_called)


def never_called() -> None:
    """Represent a verb in the help."""


def become(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the agent, with unchanged arguments.

    Raises `MachineLacks` when there is no agent.
    """
    from perpacket.measure import agent

    # `pidof perpacket-agent` then finds a server, with the lab and without it.
    program = str(agent.find(agent.LAB if is_of_lab(arguments) else agent.OPERATOR))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, ["perpacket", *arguments])


def is_of_lab(arguments: Sequence[str]) -> bool:
    """Whether only the lab's agent has a verb."""
    return arguments[0] in LAB_VERBS or list(arguments[1:2]) == ["media"]


def run(arguments: Sequence[str]) -> int:
    """Run a verb of the agent; returns only if the agent has not replaced this process.

    The agent reads its options. This process does more for those of three verbs: `profile --hosts`,
    an application of `profile` or `load http`, and the advice below the table of a profile.
    """
    from perpacket.measure import agent

    if is_of_lab(arguments):
        lab.require(f"perpacket {' '.join(arguments[:2])}")
    if list(arguments[:2]) == ["profile", "compare"]:
        from perpacket.cli import profile_compare

        return profile_compare.run(arguments[2:])
    if arguments[0] == "profile" and (file := case_among(arguments[1:])) is not None:
        from perpacket.cli import case_verb

        return case_verb.profile(file, [word for word in arguments[1:] if word != str(file)])
    if arguments[0] == "profile" or list(arguments[:2]) == ["load", "http"]:
        parsed = agent.parsed(arguments)
        if parsed is not None and "show-config" not in parsed[1]:
            verb, options = parsed
            return profile(options) if verb == "profile" else load_http(options)
    become(arguments)


def case_among(words: Sequence[str]) -> Path | None:
    """The file of `perpacket capture` that is the first or the last of some arguments."""
    from perpacket.advise import case

    for word in {words[0], words[-1]} if words else ():
        if not word.startswith("-") and "--" not in words and case.is_archive(Path(word)):
            return Path(word)
    if words and not words[0].startswith("-"):
        hint = f"`perpacket profile --perf {words[0]}` reads recordings and stacks"
        case.require_archive(Path(words[0]), hint)
    return None


def applications(module: str) -> ModuleType:
    """A module of the lab about real web applications."""
    return lab.load(f"measure.applications.{module}", "--application")


def load_http(options: Options) -> int:
    """Run `load http`; the agent's clients request the pages of `application`.

    The agent receives the path of the application's sessions in place of the name. Without a URL,
    the clients use the running application, or this function runs one for the load.
    """
    from perpacket.measure import agent

    name = str(options.get("application", ""))
    if not name or Path(name).is_file():
        become(agent.run("load http", options))
    file, running, sessions = map(applications, ("application_file", "running", "sessions"))
    definition = file.load(name)
    options = options | {"application": str(definition.sessions)}
    if "url" in options:
        become(agent.run("load http", options))
    with running.present_or_started(definition) as url:
        own: Options = {"url": url, "insecure": sessions.is_untrusted(definition)}
        return run_child([str(agent.find()), *agent.run("load http", options | own)])


def profile(options: Options) -> int:
    """Run `profile` on this machine or on those of `hosts`."""
    from perpacket.measure import agent

    options = dict(options)
    if "hosts" in options:
        return profile_of_hosts(options)
    if name := options.pop("application", None):
        file, running = applications("application_file"), applications("running")
        options["pid"] = running.require(file.load(str(name)).name).pid
    if prints_advice(options):
        return profile_with_advice(options)
    become(agent.run("profile", options))


WITHOUT_ADVICE = ("quiet", "self-check", "every", "perf")
"""Options with which a profile prints no table of this machine, so that no advice follows."""


def prints_advice(options: Options) -> bool:
    """Whether a profile with these options samples call chains and prints a table."""
    is_table = options.get("format", "table") == "table"
    return is_table and options.get("events") != "accounts" and not {*options} & {*WITHOUT_ADVICE}


def profile_of_hosts(options: Options) -> int:
    """Run `profile --hosts`: one profile of each machine, in one table."""
    from perpacket.cli import hosts
    from perpacket.cli.failure import ExitStatus
    from perpacket.cli.options import Format

    names = str(options.pop("hosts"))
    quiet = bool(options.pop("quiet", False))
    output_format = Format(str(options.pop("format", "table")))
    hosts.profile(names, options, output_format, quiet)
    return ExitStatus.DONE


def profile_with_advice(options: Options) -> int:
    """Run `profile`, then print the change most worth trying."""
    from perpacket.advise import glance
    from perpacket.measure import agent
    from perpacket.measure.hosts.record import temporary_folder
    from perpacket.show import advice_tables

    pid = options.get("pid")
    try:
        counters = glance.CountersAroundProfile(None if pid is None else int(str(pid)))
    except (OSError, ValueError):
        become(agent.run("profile", options))  # the agent reports what is wrong with the process
    with temporary_folder("profile") as folder:
        stacks = Path(str(options.setdefault("folded", str(folder / "stacks"))))
        status = run_child([str(agent.find()), *agent.run("profile", options)])
        report = counters.report(stacks) if status == 0 else None
        line = "" if report is None else advice_tables.next_line(report)
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
