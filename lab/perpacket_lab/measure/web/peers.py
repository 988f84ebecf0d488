"""nginx and Apache as servers under test, configured for a fair comparison.

Each has one worker per processor, writes no log, keeps connections open as long as clients want,
sends files with sendfile, and checks files for changes as rarely as `serve web` if it can. Apache
runs its MPM event or worker with a thread for every client, or prefork with a process for every
client. Their configuration is in the study's own folder. They run in the foreground, so that the
run can stop them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

from perpacket.advise.twin import BLOCKS
from perpacket.errors import RunFailed
from perpacket.measure.hosts.contract import Host
from perpacket.measure.hosts.local import free_ports
from perpacket_lab.measure.web.web_plan import WebPlan

PeerKind = Literal["nginx", "apache", "apache-worker", "apache-prefork"]

MPM: dict[PeerKind, str] = {
    "apache": "event",
    "apache-worker": "worker",
    "apache-prefork": "prefork",
}
"""Apache's multi-processing module."""

FIND_S = 30.0
"""Time limit of the search for a program."""

DESCRIPTORS = 16_384
"""Descriptors that a worker of nginx may open."""

LEAST_THREADS = 64
"""The least number of threads of an Apache process, as in the pools of `serve web`."""

MORE_WORKERS = 8
"""The threads or processes of Apache in excess of the clients, because connections may overlap."""

FIND_NGINX = "PATH=$PATH:/usr/sbin:/usr/local/sbin; command -v nginx"
"""Prints the path of nginx."""

FIND_APACHE = """
PATH=$PATH:/usr/sbin:/usr/local/sbin
command -v apache2 || command -v httpd || exit 1
for folder in /usr/lib/apache2/modules /usr/lib64/httpd/modules /usr/lib/httpd/modules; do
    if [ -e "$folder/mod_mpm_$0.so" ]; then echo "$folder"; exit 0; fi
done
exit 1
"""
"""Prints the path of Apache and the folder of its modules, one of which is the MPM `$0`."""

NGINX = """\
daemon off;
worker_processes {workers};
worker_cpu_affinity {masks};
worker_rlimit_nofile {descriptors};
user nobody {group};
pid {folder}/nginx.pid;
error_log stderr crit;
events {{
    worker_connections {descriptors};
    use epoll;
}}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    open_file_cache max=10000 inactive=600s;
    open_file_cache_valid 1s;
    keepalive_timeout 600s;
    keepalive_requests 1000000000;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {address}:{port} backlog=4096; root {root}; }}
}}
"""

APACHE = """\
ServerRoot {folder}
ServerName perpacket
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog /dev/stderr
LogLevel crit
LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so
LoadModule authz_core_module {modules}/mod_authz_core.so
User nobody
Group {group}
Listen {address}:{port}
ListenBacklog 4096
{pool}
MaxConnectionsPerChild 0
Timeout 60
KeepAlive On
KeepAliveTimeout 600
MaxKeepAliveRequests 0
EnableSendfile On
EnableMMAP On
FileETag None
DocumentRoot {root}
<Directory {root}>
    AllowOverride None
    Require all granted
</Directory>
"""

THREADS = """\
StartServers {workers}
ServerLimit {workers}
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {all_threads}
MinSpareThreads 1
MaxSpareThreads {all_threads}"""
"""The pool of Apache's MPM event and worker."""

PROCESSES = """\
StartServers {processes}
ServerLimit {processes}
MaxRequestWorkers {processes}
MinSpareServers 1
MaxSpareServers {processes}"""
"""The pool of Apache's MPM prefork."""


def lack(host: Host, kind: PeerKind) -> str:
    """The reason why a server cannot run on a host; empty if it can."""
    if find(host, kind):
        return ""
    name = "nginx" if kind == "nginx" else f"Apache with its MPM {MPM[kind]}"
    package = "nginx-light" if kind == "nginx" else "apache2-bin"
    return f"there is no {name} on {host.name}: install it (Debian: {package})"


def find(host: Host, kind: PeerKind) -> list[str]:
    """The program, and for Apache the folder of its modules; empty if there is none."""
    search = [FIND_NGINX] if kind == "nginx" else [FIND_APACHE, MPM[kind]]
    done = host.run(["sh", "-c", *search], timeout_s=FIND_S)
    return done.stdout.split() if done.returncode == 0 else []


def prepare(
    host: Host,
    kind: PeerKind,
    plan: WebPlan,
    root: str,
    folder: str,
    certificate: tuple[str, str] = ("", ""),
) -> tuple[list[str], str]:
    """Write a server's configuration into `folder` on its host; returns its command and URL.

    `certificate` names the files of the certificate and the key, for a plan with TLS.

    Raises `RunFailed` when the server is not installed.
    """
    program = find(host, kind)
    if not program:
        raise RunFailed(lack(host, kind))
    (port,) = free_ports(1)
    file = f"{folder}/{kind}.conf"
    configuration = _nginx if kind == "nginx" else _apache
    text = configuration(host, plan, root, folder, port, program)
    if plan.tls_key:
        text = with_tls(text, *certificate)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as local:
        local.write(text)
        local.flush()
        host.put(Path(local.name), file)
    if kind == "nginx":
        command = [program[0], "-p", folder, "-c", file, "-e", "stderr"]
    else:
        command = [program[0], "-D", "FOREGROUND", "-f", file]
    scheme = "https" if plan.tls_key else "http"
    return command, f"{scheme}://{host.address}:{port}"


def with_directives(configuration: str, directives: str) -> str:
    """The configuration of nginx with these directives, each ended by `;`.

    They replace directives of the same names.
    """
    lines = configuration.splitlines()
    for directive in filter(None, (each.strip() for each in directives.split(";"))):
        name = directive.split()[0]
        lines = [line for line in lines if line.split()[:1] != [name]]
        block = BLOCKS.get(name, "http")
        at = lines.index(f"{block} {{") + 1 if block else 0
        lines.insert(at, f"{directive};")
    return "\n".join(lines) + "\n"


def with_tls(configuration: str, certificate: str, key: str) -> str:
    """A configuration of nginx with TLS on its port, and sessions that clients may resume."""
    directives = (
        f"ssl_certificate {certificate}; ssl_certificate_key {key}; "
        "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:10m; "
    )
    return configuration.replace(
        "    server { listen ", f"    {directives}\n    server {{ listen "
    ).replace(" backlog=4096;", " ssl backlog=4096;")


def processes_of(plan: WebPlan) -> int:
    """The processes of Apache's MPM prefork besides the first: a process for every client."""
    return max(LEAST_THREADS, max(plan.connections, plan.users) + MORE_WORKERS)


def _nginx(host: Host, plan: WebPlan, root: str, folder: str, port: int, _found: list[str]) -> str:
    text = NGINX.format(
        workers=len(host.cpus),
        masks=" ".join(f"{1 << cpu:b}" for cpu in host.cpus),
        descriptors=DESCRIPTORS,
        group=_group_of_nobody(host),
        folder=folder,
        address=host.address,
        port=port,
        root=root,
    )
    return with_directives(text, plan.server_options.replace("{folder}", folder))


def _apache(
    host: Host, plan: WebPlan, root: str, folder: str, port: int, modules: list[str]
) -> str:
    mpm = MPM[plan.server_kind] if plan.server_kind in MPM else MPM["apache"]
    clients = max(plan.connections, plan.users)
    if mpm == "prefork":
        pool = PROCESSES.format(processes=processes_of(plan))
    else:
        workers = len(host.cpus)
        threads = max(LEAST_THREADS, -(-(clients + MORE_WORKERS) // workers))
        pool = THREADS.format(workers=workers, threads=threads, all_threads=workers * threads)
    return APACHE.format(
        mpm=mpm,
        pool=pool,
        group=_group_of_nobody(host),
        modules=modules[1],
        folder=folder,
        address=host.address,
        port=port,
        root=root,
    )


def _group_of_nobody(host: Host) -> str:
    """The group of the servers' user `nobody`: `nogroup` on Debian, `nobody` elsewhere."""
    done = host.run(["id", "-gn", "nobody"], timeout_s=FIND_S)
    return done.stdout.strip() or "nogroup"
