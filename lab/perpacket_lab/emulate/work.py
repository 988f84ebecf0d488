"""The work of the guest after it is restored, as a script for its shell.

The server runs on the first processors. The clients, in the namespace of card B, and the program
that starts and ends the window run on the last one. The queue of card B delays the frames for both
directions, so that the server's processors have no work from the delay.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from perpacket_lab.emulate import datagrams, guest_changes
from perpacket_lab.emulate.datagrams import CLIENT, SERVER
from perpacket_lab.emulate.files import SERVER_FOLDER
from perpacket_lab.emulate.guest_changes import GuestChange
from perpacket_lab.emulate.hardware import Hardware
from perpacket_lab.emulate.settings import DATAGRAMS, PLACEHOLDERS, TLS, Scenario, Settings

WEB_PORT = 80
BULK_PORT = 5001
FILE = "file"
FOREVER_S = 100_000_000
QUEUE_FRAMES = 1_000_000
"""The limit of delayed frames: more frames than fit in the TCP windows of all connections."""

PHASE_FRAMES = 977
"""The number of frames by which each variant's window starts later than the previous one's."""

PHASE_REQUESTS = 89
"""The same in a window of requests."""

LAYOUT_KIB = 372
"""Each variant has this much more memory in use before its server starts, so that the server has
other pages."""

OUTPUT = "/tmp/server"
"""The file with the server's messages."""
OUTPUT_LINES = 5
"""The last lines of the server's messages that an error has."""
REASON = "cannot\\|no such\\|not found\\|refused\\|denied"
REASONS = 2
"""The lines before these that an error has, if they contain one of these words."""

URL = f"http://{SERVER}:{WEB_PORT}/{FILE}"

FOLDER = f"/{SERVER_FOLDER}"
"""The file with the server's working folder, if its command names files relative to one."""

ANSWER = "/tmp/answer"
"""The file with the errors of the first request to another server."""

CLIENT_FILE = "/tmp/client"
"""The file with the output of a client that is another command."""

CLIENT_RUN = "/tmp/client-run"
"""The script that runs such a client once."""

CLIENT_OUTPUT = "perpacket: output of the client"
"""The line of the console before that output."""

CLIENT_BYTES = 65_536
"""The most bytes of it."""

UNPACK = """\
perpacket-agent guest files | (cd / && cpio -idu) 2>/dev/null || {
    free=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
    echo "error: the guest cannot unpack the server's files; $free KiB of its memory are free" >&2
    exit 1
}"""
"""Unpacks the files of another server."""

SETUP = "/tmp/setup"
"""The script of the user, and the beginning of the name of its output."""

MODULES = f"/{guest_changes.FOLDER}"

STORE_SYMBOLS = "perpacket-agent guest store symbols /proc/kallsyms || exit 1"
"""Tells the plugin the functions of modules that were loaded."""

OFFLOADS = ("tso", "gso", "gro")


@dataclass(frozen=True, slots=True)
class Place:
    """A function whose calls are counted."""

    address: int
    """Its address; in a file, its offset."""
    file: str = ""
    """The program or library in the guest; empty for the kernel."""

    @property
    def arguments(self) -> str:
        """The arguments of the agent."""
        return f" --function {self.address}" + (f" --in {self.file}" if self.file else "")


def script(settings: Settings, variant: int, counted: Place | None = None) -> bytes:
    """The script of one variant; the first variant is 0. `counted` has the calls that count."""
    scenario, hardware = settings.scenario, settings.hardware
    lines = [
        "exec 2>/tmp/errors",
        'inside="nsenter -n -t $(cat /run/client)"',
        UNPACK,
        *network(scenario),
        *workers(hardware),
        *setup(settings.setup),
        *change(settings),
        *layout(settings.seed, variant),
        *server(scenario, hardware, settings.changes),
        *loaded(settings, variant, counted),
    ]
    return os.fsencode("\n".join(lines) + "\n")


def loaded(settings: Settings, variant: int, counted: Place | None) -> list[str]:
    """Start the clients, and count a window."""
    scenario, hardware = settings.scenario, settings.hardware
    count = f"taskset {hardware.client_mask} perpacket-agent guest count eth0"
    pause = f"sleep {0.01 + 0.0037 * variant:.4f}"
    arguments = window(settings, variant) + (counted.arguments if counted else "")
    if not scenario.client:
        return [
            *clients(scenario, settings.seed + variant, hardware),
            "clients=$!",
            pause,
            "kill -0 $clients || exit 1",
            f"{count} {arguments}",
        ]
    command = f"taskset {hardware.client_mask} {filled(scenario, scenario.client)}"
    last = last_lines(CLIENT_FILE)
    if settings.output:
        # The script is run by the agent, so it needs the values of the shell's variables.
        return [
            f'echo "$inside "{shlex.quote(f"{command} >{CLIENT_FILE} 2>&1")} >{CLIENT_RUN}',
            pause,
            f"{count} 0 0 0 --script {CLIENT_RUN} 2>/dev/null || {{",
            f'    echo "error: the client failed; its last messages: {last}" >&2',
            "    exit 1",
            "}",
            f"echo {shlex.quote(CLIENT_OUTPUT)}; tail -c {CLIENT_BYTES} {CLIENT_FILE}",
        ]
    command = f"$inside {command}"
    return [
        f"{command} >{CLIENT_FILE} 2>&1 &",
        "clients=$!",
        pause,
        f"{count} {arguments} &",
        "count=$!",
        "while kill -0 $count 2>/dev/null; do",
        "    kill -0 $clients 2>/dev/null || {",
        "        sleep 0.1; kill -0 $count 2>/dev/null || break",
        f'        echo "error: the client ended before the window; its last messages: {last}" >&2',
        "        exit 1",
        "    }",
        "    sleep 0.02",
        "done",
        "wait $count || exit 1",
    ]


def workers(hardware: Hardware) -> list[str]:
    """Have nginx start a worker for each processor, if there are several."""
    if hardware.servers == 1:
        return []
    worker = f"worker_processes {hardware.servers}; worker_cpu_affinity auto;"
    return [f"sed -i 's/^worker_processes .*/{worker}/' /etc/nginx.conf"]


def setup(script: Path | None) -> list[str]:
    """The user's own script. Afterwards the plugin learns the functions of the modules it loads."""
    if script is None:
        return []
    text = os.fsdecode(script.read_bytes())
    return [
        f"printf %s {shlex.quote(text)} >{SETUP}",
        *checked(f'inside="$inside" sh -e {SETUP}', "the set-up"),
        STORE_SYMBOLS,
    ]


def change(settings: Settings) -> list[str]:
    """Load the modules of all compared changes, and make those of this emulation."""
    lines = [
        f"[ ! -e {MODULES}/order ] || {{",
        f"    while read -r module; do insmod {MODULES}/$module || exit 1; done <{MODULES}/order",
        f"    {STORE_SYMBOLS}",
        "}",
    ]
    for text in settings.changes:
        for command in GuestChange.of(text, settings.scenario).commands:
            lines += checked(command, text)
    return lines


def checked(command: str, what: str) -> list[str]:
    """Run a command. If it fails, end with an error that has its last message."""
    output = f"{SETUP}-output"
    last = f"$(tail -n 1 {output} | grep . || echo none)"
    ended = f'" ended with status $status; its last message: {last}"'
    return [
        f"{command} >{output} 2>&1 || {{",
        "    status=$?",
        f"    echo {shlex.quote(f'error: {what}')}{ended} >&2",
        "    exit 1",
        "}",
    ]


def window(settings: Settings, variant: int) -> str:
    """The warm-up and the window, as arguments of the agent."""
    if settings.requests:
        warmup = settings.warmup + PHASE_REQUESTS * variant
        return f"0 0 0 --requests {settings.requests} --warmup-requests {warmup}"
    warmup = settings.warmup + PHASE_FRAMES * variant
    return f"{warmup} {settings.frames} {connections_in_turn(settings.scenario)}"


def connections_in_turn(scenario: Scenario) -> int:
    """The connections to which the server sends in turn; 0 for a server that does not."""
    return scenario.connections if scenario.server == "bulk" else 0


def network(scenario: Scenario) -> list[str]:
    """The commands that set offloads, buffers and the delay."""
    lines = []
    if not scenario.offloads:
        for inside, card in (("", "eth0"), ("$inside ", "eth1")):
            lines += [
                f"{inside}perpacket-agent guest offload {card} {name} off" for name in OFFLOADS
            ]
            # TCP still builds large packets, so limit the device to packets of one segment.
            lines.append(f"{inside}/host/ip link set {card} gso_max_segs 1")
    if size := scenario.socket_buffer_bytes:
        for inside in ("", "$inside "):
            for name in ("tcp_wmem", "tcp_rmem"):
                words = f"4096 {size} {size}"
                lines.append(f"{inside}sh -c 'echo {words} >/proc/sys/net/ipv4/{name}'")
    if scenario.latency_ms:
        lines.append(
            f"$inside /host/tc qdisc add dev eth1 root netem delay {2 * scenario.latency_ms:g}ms "
            f"limit {QUEUE_FRAMES} || exit 1"
        )
    return lines


def layout(seed: int, variant: int) -> list[str]:
    """Commands that use memory and draw random numbers, a different amount in each variant."""
    kib = LAYOUT_KIB * variant + seed % 64
    return [
        f"dd if=/dev/zero of=/tmp/layout bs=1024 count={kib}",
        f"dd if=/dev/urandom of=/dev/null bs=64 count={seed % 1000 + variant}",
    ]


def server(scenario: Scenario, hardware: Hardware, changes: Sequence[str] = ()) -> list[str]:
    """Start the server on its processors and wait until it listens."""
    if scenario.server in DATAGRAMS:
        return datagrams.server(scenario)
    if scenario.is_bulk:  # the clients are the side that listens
        return []
    changed = [GuestChange.of(text, scenario).server_option for text in changes]
    options = " ".join(filter(None, [scenario.server_options, *changed]))
    options = options.replace("{folder}", "/tmp")
    web = [
        *("perpacket-agent", "serve", "web", "--root", "/www", "--quiet"),
        *("--listen", f"{SERVER}:{WEB_PORT}", "--cpus", hardware.server_list),
        *shlex.split(options),
    ]
    words = {
        "nginx": ["/host/nginx", "-c", "/etc/nginx.conf", "-e", "stderr"],
        "web": web,
        TLS: [*web, "--tls-cert", "/etc/tls.crt", "--tls-key", "/etc/tls.key"],
    }.get(scenario.server)
    # Other servers may print their errors on standard output.
    command = (
        f"{shlex.join(words)} >/dev/null 2>{OUTPUT}"
        if words
        else f"{filled(scenario, scenario.server)} >{OUTPUT} 2>&1"
    )
    return [
        *(nginx_configuration(options) if options and scenario.server == "nginx" else []),
        f"head -c {scenario.bytes} /dev/zero >/www/{FILE}",
        "chmod -R a+rX /www",
        *([] if words else [f'[ ! -e {FOLDER} ] || cd "$(cat {FOLDER})"']),
        f"taskset {hardware.server_mask} {command} &",
        "server=$!",
        *listening(f"{SERVER}:{WEB_PORT}", "", "the server", "" if words else "tcp6"),
        *([] if words or scenario.client else answering(hardware)),
    ]


def answering(hardware: Hardware) -> list[str]:
    """Send a request to a server that perpacket does not configure; fail without a response.

    The server may speak another protocol. The window of requests would never begin then.
    """
    request = f"$inside taskset {hardware.client_mask} perpacket-agent load http {URL}"
    error = f"the server sent no HTTP response: $error; its last messages: {last_lines(OUTPUT)}"
    return [
        f"{request} --requests 1 --check none --quiet >/dev/null 2>{ANSWER} || {{",
        f"""    error=$(sed -n '1s/^error: //p' {ANSWER})""",
        f'    echo "error: {error}" >&2',
        "    exit 1",
        "}",
    ]


def nginx_configuration(directives: str) -> list[str]:
    """Write the configuration of nginx with these directives."""
    from perpacket_lab.measure.web.peers import with_directives

    file = resources.files("perpacket_lab.emulate") / "guest" / "nginx.conf"
    text = with_directives(file.read_text(encoding="utf-8"), directives)
    return [f"printf %s {shlex.quote(text)} >/etc/nginx.conf"]


def filled(scenario: Scenario, command: str) -> str:
    """The command of another server or client, with `{root}`, `{address}` and so on replaced."""
    own = "/www", SERVER, str(WEB_PORT), str(scenario.connections)
    values = dict(zip(PLACEHOLDERS, own, strict=True))
    words = []
    for word in shlex.split(command):
        for name, value in values.items():
            word = word.replace(name, value)  # noqa: PLW2901
        words.append(word)
    words[0] = f"/host/{words[0].rpartition('/')[2]}"
    return shlex.join(words)


def last_lines(file: str) -> str:
    """The first reasons of a failure in a file and its last lines, as one line.

    The text is for a double-quoted text of the shell.
    """
    one_line = """awk '!seen[$0]++ { printf "%s%s", before, $0; before = " | " }'"""
    lines = f"grep -i -m {REASONS} '{REASON}' {file}; tail -n {OUTPUT_LINES} {file}"
    return f"$({{ {lines}; }} | cut -c 1-200 | {one_line} | grep . || echo none)"


def listening(address: str, inside: str, who: str, also: str = "") -> list[str]:
    """Wait until a process listens at an address; fail if it fails, or listens too late.

    A process that ends with status 0 may have started a daemon. The error has the last messages of
    the process, in one line. `also` is a further table of sockets: servers of other people may
    listen at both versions of IP.
    """
    port = f":{int(address.rpartition(':')[2]):04X} "
    last = last_lines(OUTPUT)
    error = f"{who} does not listen at {address}: it $does; its last messages: {last}"
    tables = f"/proc/net/tcp /proc/net/{also}" if also else "/proc/net/tcp"
    any_address = "00000000" + ("0*" if also else "")
    return [
        "tries=1100; status=",
        f"until {inside}cat {tables} | grep -q '{port}{any_address}:0000 0A'; do",
        "    does=runs",
        "    kill -0 $server 2>/dev/null || {",
        '        [ "$status" ] || { wait $server; status=$?; }',
        '        does="ended with status $status"',
        "    }",
        "    [ ${status:-0} = 0 ] && [ $((tries -= 1)) -gt 0 ] || {",
        f'        echo "{error}" >&2',
        "        exit 1",
        "    }",
        "    # A virtual machine such as Java's starts for many seconds of the guest.",
        "    if [ $tries -gt 600 ]; then sleep 0.01; else sleep 0.1; fi",
        "done",
    ]


def clients(scenario: Scenario, seed: int, hardware: Hardware) -> list[str]:
    """Start the clients on their processor. The bulk sender starts after its receiver."""
    if scenario.server in DATAGRAMS:
        return datagrams.clients(scenario)
    inside = f"$inside taskset {hardware.client_mask}"
    if scenario.is_bulk:
        way = " --direction receive" if scenario.server == "bulk-receive" else ""
        rate = f" --bit-rate {scenario.rate_mbps:g}Mb/s" if scenario.rate_mbps else ""
        to = f"{CLIENT}:{BULK_PORT}"
        # The sender does not leave its warm-up: its measurement would read TCP_INFO of hundreds of
        # connections, and the counts would include that.
        return [
            f"{inside} perpacket-agent load stream --listen {to} --quiet "
            f"--cpus {hardware.servers} >/dev/null 2>{OUTPUT} &",
            "server=$!",
            *listening(to, "$inside ", "the far end"),
            f"taskset {hardware.server_mask} perpacket-agent load stream --to {to} "
            f"--connections {scenario.connections} --segment-size {scenario.bytes} "
            f"--warmup {FOREVER_S}s --cpus {hardware.server_list} --quiet{rate}{way} >/dev/null &",
        ]
    closing = "" if scenario.keep_alive else "--keep-alive 0 "
    scheme, trust = ("https", "--insecure ") if scenario.server == TLS else ("http", "")
    return [
        f"{inside} perpacket-agent load http {scheme}://{SERVER}:{WEB_PORT}/{FILE} {trust}"
        f"--connections {scenario.connections} --duration {FOREVER_S}s --seed {seed} "
        f"--cpus {hardware.servers} {closing}--check none --quiet >/dev/null &",
    ]
