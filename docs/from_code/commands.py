"""The command line: the verbs of the Python front and of the agent."""

from __future__ import annotations

import enum
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from from_code import markdown

HELP_LIMIT_S = 30


def front(root: Path) -> str:
    """Describe every verb of the Python front with its options, under headings."""
    import typer

    from perpacket.cli.agent_verbs import VERBS
    from perpacket.cli.app import app

    group: Any = typer.main.get_command(app)
    parts = []
    for name, command in group.commands.items():
        if name not in VERBS:
            parts += list(verb(f"perpacket {name}", command))
    return "\n".join(parts)


def verb(name: str, command: Any) -> Iterator[str]:
    """Describe a verb, or each verb of a group."""
    if hasattr(command, "commands"):
        for part, subcommand in command.commands.items():
            yield from verb(f"{name} {part}", subcommand)
        return
    yield f"## {name}\n"
    # typer marks paragraphs with \b, and ends of lines with \f.
    yield re.sub(r"\n?\x08\n", "\n", command.help or "").replace("\x0c", "\n") + "\n"
    options = [one for one in command.params if not getattr(one, "hidden", False)]
    if options:
        yield markdown.table(("option", "value", "meaning"), map(option, options))
    if command.epilog:
        yield examples(command.epilog)


def examples(epilog: str) -> str:
    """Return the examples of a verb's help, one a line."""
    lines = re.sub(r",? +or:? +(?=perpacket )", "\n", re.sub(r"^Examples?: ", "", epilog))
    return markdown.fenced("text", lines)


def option(one: Any) -> tuple[str, str, str]:
    """Return an option or argument as a row."""
    is_option = one.opts[0].startswith("-")
    spellings = [*one.opts, *getattr(one, "secondary_opts", ())]
    names = ", ".join(map(markdown.code, spellings)) if is_option else f"`{one.name.upper()}`"
    help_text = one.help or ""
    default = getattr(one, "default", None)
    if default not in (None, False, [], ()) and not callable(default):
        value = default.value if isinstance(default, enum.Enum) else default
        help_text += f" Default: `{value}`."
    return names, accepted_value(one), help_text


def accepted_value(one: Any) -> str:
    """Return what an option accepts: its placeholder, its values, or its type."""
    if getattr(one, "is_flag", False):
        return ""
    if one.metavar and one.metavar.strip("{}") != one.name:
        return markdown.code(one.metavar)
    kind = one.type_descriptor.annotation
    for inner in get_args(kind):
        if inner is not type(None):
            kind = inner
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return markdown.code("|".join(str(item.value) for item in kind))
    return markdown.code(getattr(kind, "__name__", str(kind)).lower())


def agent_verbs(root: Path) -> str:
    """Return the help of every verb of the agent, under headings."""
    from perpacket.cli.agent_verbs import VERBS

    return "\n".join(part for name in VERBS for part in agent_verb((name,)))


def agent_verb(words: tuple[str, ...]) -> Iterator[str]:
    """Return the help of a verb of the agent, or of each verb of a group."""
    text = agent_help(words)
    group = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
    if group is None:
        yield f"## perpacket {' '.join(words)}\n\n{markdown.fenced('text', text)}"
        return
    for name in re.findall(r"^  ([a-z-]+)  ", group.group(1), re.MULTILINE):
        if name != "help":
            yield from agent_verb((*words, name))


def agent_help(words: tuple[str, ...]) -> str:
    """Return the agent's help of a verb, under the program name that users type."""
    from perpacket.measure import agent

    done = subprocess.run(
        ["perpacket", *words, "--help"],
        executable=agent.find(),
        capture_output=True,
        text=True,
        check=True,
        timeout=HELP_LIMIT_S,
    )
    return done.stdout
