"""The server behind a process, and its options.

The options of nginx come from its configuration files, which perpacket parses itself: `nginx -T`
would print them, but it also creates logs and folders, and advice changes nothing. The options of
`serve web` come from its command line.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perpacket.measure import agent

NGINX = "nginx"
SERVE_WEB = "serve web"

DEFAULT_CONFIGURATION = "/etc/nginx/nginx.conf"
"""The path of Debian and Fedora, for an nginx that does not report its own."""

LARGE = re.compile(r"(\d+)\s*(GiB|GB)$")
"""Matches a threshold of `--sendfile-above` that few files reach."""

ASK_S = 5.0
"""Time limit of `nginx -V`."""

TOKEN = re.compile(
    r"""
    \#[^\n]*                      # a comment
    | "(?:\\.|[^"\\])*"           # quoted words
    | '(?:\\.|[^'\\])*'
    | [;{}]
    | (?:\\.|\$\{[^}]*\}|[^\s;{}"'\#\\])(?:\\.|\$\{[^}]*\}|[^\s;{}\\])*
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    kind: str
    """`nginx`, `serve web`, or the program's name if it is another server."""
    pid: int
    command: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    """The present value of each option, by the change of the catalogue that sets it."""
    unread: str = ""
    """The reason why the options could not be read."""
    configuration: tuple[Directive, ...] = ()
    """The configuration of nginx, with included files in place of `include`."""
    lines: Mapping[str, str] = field(default_factory=dict)
    """The line of the configuration that sets an option, where one does."""


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive of nginx: `listen 80;`, or a block."""

    name: str
    arguments: tuple[str, ...]
    block: tuple[Directive, ...] | None = None

    @property
    def text(self) -> str:
        """The directive in the syntax of nginx."""
        words = " ".join((self.name, *map(_quoted, self.arguments)))
        if self.block is None:
            return f"{words};\n"
        return f"{words} {{\n{''.join(one.text for one in self.block)}}}\n"


def _quoted(word: str) -> str:
    if word and not re.search(r"[\s;{}\"'#]", word.replace("${", "")):
        return word
    return '"' + word.replace('"', '\\"') + '"'


def find(pid: int, proc: Path = Path("/proc")) -> Server:
    """The server behind a process; raises `FileNotFoundError` if there is no such process."""
    command = words(proc, pid)
    line = " ".join(command)
    if line.startswith("nginx: worker") or (not command and _name(proc, pid) == NGINX):
        return find(_parent(proc, pid), proc)
    if line.startswith("nginx: master") or Path(command[0] if command else "").name == NGINX:
        return _nginx(pid, command, proc)
    if (given := given_options(command)) is not None:
        return Server(SERVE_WEB, pid, command, web_options(given))
    name = _name(proc, pid)
    return Server(name, pid, command, {}, f"perpacket knows no options of {name}")


def words(proc: Path, pid: int) -> tuple[str, ...]:
    """The command line of a process."""
    text = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    return tuple(word for word in text.split("\0") if word)


def _name(proc: Path, pid: int) -> str:
    return (proc / str(pid) / "comm").read_text(errors="replace").strip()


def _parent(proc: Path, pid: int) -> int:
    status = (proc / str(pid) / "status").read_text(errors="replace")
    return int(re.findall(r"^PPid:\s*(\d+)", status, re.MULTILINE)[0])


def given_options(command: Sequence[str]) -> agent.Options | None:
    """The options that a command line gives to `serve web`; None if it is another program's."""
    if ("serve", "web") in itertools.pairwise(command):
        found = agent.parsed(command[command.index("serve") :])
        return {} if found is None else found[1]
    if list(command[1:2]) != ["run"]:
        return None
    try:
        document = json.loads(command[-1])
    except ValueError:
        return None
    options = document.get(SERVE_WEB) if isinstance(document, dict) else None
    return options if isinstance(options, dict) else None


def web_options(given: agent.Options) -> dict[str, str]:
    """The options of `serve web`, with their defaults."""
    above = str(given.get("sendfile-above", "128KiB"))
    return {
        "sendfile": "off" if LARGE.match(above) else "on",
        "io-uring": "on" if given.get("architecture") == "uring" else "off",
        "batch": str(given.get("coalesce", "0s")),
        "ssl": "on" if given.get("tls-cert") else "off",
    }


def _nginx(pid: int, command: tuple[str, ...], proc: Path) -> Server:
    path = _configuration_path(pid, command, proc)
    try:
        configuration = tuple(read(path, _root(pid, proc)))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return Server(NGINX, pid, command, {}, f"{path}: {reason.lower()}")
    cpus = os.cpu_count() or 1
    options, lines = nginx_options(configuration, cpus), nginx_lines(configuration)
    return Server(NGINX, pid, command, options, "", configuration, lines)


def _nginx_option(line: Sequence[str], name: str, default: str) -> str:
    return line[line.index(name) + 1] if name in line[:-1] else default


def _configuration_path(pid: int, command: tuple[str, ...], proc: Path) -> str:
    line = [word for part in command for word in part.split()]
    path = _nginx_option(line, "-c", "") or _compiled_path(proc, pid)
    if not path.startswith("/"):
        path = os.path.join(_nginx_option(line, "-p", "/etc/nginx"), path)
    return path


def _root(pid: int, proc: Path) -> Path:
    root = proc / str(pid) / "root"
    return root if os.access(root, os.R_OK | os.X_OK) else Path("/")


def _compiled_path(proc: Path, pid: int) -> str:
    """The path of the configuration that nginx was built with, as `nginx -V` prints it."""
    try:
        program = os.readlink(proc / str(pid) / "exe")
        done = subprocess.run(
            [program, "-V"], capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return DEFAULT_CONFIGURATION
    found = re.search(r"--conf-path=(\S+)", done.stderr)
    return found[1] if found else DEFAULT_CONFIGURATION


def read(path: str, root: Path = Path("/")) -> Iterator[Directive]:
    """The directives of a configuration, with those of included files in place of `include`.

    Raises `OSError` for a file that cannot be read, and `ValueError` for invalid syntax.
    """
    tokens = _tokens(_below(root, path).read_text(errors="replace"))
    folder = os.path.dirname(path)

    def included(pattern: str) -> Iterator[Directive]:
        pattern = os.path.join(folder, pattern)
        for found in sorted(glob.glob(str(_below(root, pattern)))):
            inner = "/" + os.path.relpath(found, root)
            yield from read(inner, root)

    yield from _block(tokens, included, depth=0)


def parsed(text: str) -> Iterator[Directive]:
    """The directives of a configuration whose included files are not known.

    Raises `ValueError` for invalid syntax.
    """
    yield from _block(_tokens(text), lambda _: iter(()), depth=0)


def _below(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _tokens(text: str) -> Iterator[str]:
    for found in TOKEN.finditer(text):
        if not found[0].startswith("#"):
            yield found[0]


def _block(
    tokens: Iterator[str], included: Callable[[str], Iterator[Directive]], depth: int
) -> Iterator[Directive]:
    """Directives up to the end of a block, or of the file at depth 0."""
    line: list[str] = []
    for token in tokens:
        if token == ";":
            if line[:1] == ["include"] and len(line) == 2:
                yield from included(line[1])
            elif line:
                yield Directive(line[0], tuple(line[1:]))
            line = []
        elif token == "{":
            if not line:
                raise ValueError("a block without a name")
            yield Directive(line[0], tuple(line[1:]), tuple(_block(tokens, included, depth + 1)))
            line = []
        elif token == "}":
            if depth == 0 or line:
                raise ValueError("a } that ends no block, or follows a directive without ;")
            return
        else:
            line.append(token.strip("\"'") if token[0] in "\"'" else token)
    if depth or line:
        raise ValueError("the last block or directive does not end")


COSTLIEST: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "sendfile": ("sendfile", "off", ("off", "on")),
    "tcp-nopush": ("tcp_nopush", "off", ("off", "on")),
    "nodelay": ("tcp_nodelay", "on", ("off", "on")),
    "aio": ("aio", "off", ("off", "on", "threads")),
    "open-file-cache": ("open_file_cache", "off", ("off", "on")),
    "keepalive": ("keepalive_timeout", "on", ("off", "on")),
    "access-log": ("access_log", "on", ("on", "buffer", "off")),
}
"""The directive of a change, its default, and its values, the costliest first.

If servers and locations have different values, advice concerns the costliest value.
"""


def nginx_options(configuration: Sequence[Directive], cpus: int) -> dict[str, str]:
    """The present value of each option of nginx, by the change of the catalogue that sets it."""
    found = {name: _costliest(configuration, *row) for name, row in COSTLIEST.items()}
    events = _inner(configuration, "events")
    found["multi-accept"] = _last(events, "multi_accept", "off")
    workers = _last(configuration, "worker_processes", "1")
    found["workers"] = str(cpus) if workers == "auto" else workers
    listens = [one for one in flat(configuration) if one.name == "listen"]
    shared = [one for one in listens if "reuseport" not in one.arguments]
    found["reuseport"] = "on" if listens and not shared else "off"
    found["ssl"] = "on" if any("ssl" in one.arguments for one in listens) else "off"
    kernel_tls = any(
        one.name == "ssl_conf_command" and one.arguments[1:] == ("KTLS",)
        for one in flat(configuration)
    )
    found["ktls"] = "on" if kernel_tls else "off"
    found["upstream-reuse"] = "off" if "upstream-reuse" in nginx_lines(configuration) else "on"
    return found


def nginx_lines(configuration: Sequence[Directive]) -> dict[str, str]:
    """The line of the configuration of nginx by which it opens a connection for each request.

    Connections to servers behind stay open only if an upstream has `keepalive` and requests have
    HTTP/1.1 (ngx_http_upstream_module).
    """
    every = list(flat(configuration))
    passes = [one for one in every if one.name in ("proxy_pass", "fastcgi_pass")]
    upstreams = [one for one in every if one.name == "upstream"]
    if not passes:
        return {}
    kept = [one for one in upstreams if any(inner.name == "keepalive" for inner in one.block or ())]
    if not kept:
        at = next((one for one in upstreams), passes[0])
        words = " ".join((at.name, *at.arguments))
        return {"upstream-reuse": f"{words}, without keepalive"}
    versions = {one.arguments[:1] for one in every if one.name == "proxy_http_version"}
    if passes[0].name == "proxy_pass" and not versions & {("1.1",), ("2",)}:
        return {"upstream-reuse": "proxy_pass without proxy_http_version 1.1"}
    return {}


def flat(directives: Sequence[Directive]) -> Iterator[Directive]:
    """The directives with those of their blocks."""
    for one in directives:
        yield one
        yield from flat(one.block or ())


def _inner(directives: Sequence[Directive], name: str) -> tuple[Directive, ...]:
    return next((one.block or () for one in directives if one.name == name), ())


def _last(directives: Sequence[Directive], name: str, default: str) -> str:
    found = [one.arguments[0] for one in directives if one.name == name and one.arguments]
    return found[-1] if found else default


def _costliest(
    configuration: Sequence[Directive], directive: str, default: str, order: Sequence[str]
) -> str:
    """The costliest value among the servers and locations."""
    values = set(_effective(_inner(configuration, "http"), directive, default))
    return min(values, key=lambda value: order.index(value) if value in order else 0)


def _effective(block: Sequence[Directive], directive: str, inherited: str) -> Iterator[str]:
    """The value of a directive in each server and location below a block, by inheritance."""
    own = [_normal(one) for one in block if one.name == directive]
    value = own[-1] if own else inherited
    inner = [one for one in block if one.name in ("server", "location") and one.block is not None]
    for one in inner:
        yield from _effective(one.block or (), directive, value)
    if not any(one.name == "server" for one in inner):
        yield value


def _normal(one: Directive) -> str:
    """The value of a directive, in the form of the catalogue."""
    first = one.arguments[0] if one.arguments else ""
    if one.name == "access_log" and first != "off":
        buffered = any(word.startswith(("buffer=", "gzip")) for word in one.arguments)
        return "buffer" if buffered else "on"
    if one.name == "open_file_cache" and first != "off":
        return "on"
    if one.name == "keepalive_timeout":
        return "off" if re.fullmatch(r"0+(ms|[smhdwMy])?", first) else "on"
    if one.name == "aio":
        return first.partition("=")[0]
    return first
