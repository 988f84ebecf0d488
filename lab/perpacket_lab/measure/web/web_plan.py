"""The parameters of a run of a web server or of the bulk sender."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from perpacket_lab.measure.plan import RunPlan, named

LoadKind = Literal["stream", "file", "trace", "specweb99", "surge", "webstone", "application"]
ServerKind = Literal["perpacket", "nginx", "apache", "apache-worker", "apache-prefork"]
"""The servers under test; `apache` is Apache with its MPM event."""
TlsKey = Literal["", "rsa", "ecdsa"]
"""RSA with 2048 bits, or ECDSA on the curve P-256."""

SEGMENT_BYTES = 1460
"""The size of a write of the bulk sender, so that each fills a segment: TR05-450, section 5.1."""


class WebPlan(RunPlan):
    """A run of a web server or the bulk sender."""

    kind: LoadKind = Field(alias="load.kind")
    connections: int = Field(alias="load.connections", default=1, ge=1)
    rate_mbps: float = Field(alias="load.rate_mbps", default=0, ge=0)
    size_bytes: int = Field(alias="load.size_bytes", default=0, ge=0)
    write_bytes: int = Field(alias="load.write_bytes", default=SEGMENT_BYTES, ge=1)
    """Bytes that the bulk sender writes at a time."""
    requests: int = Field(alias="load.requests", default=0, ge=0)
    """Requests of a window, each on a connection of its own; the window lasts `run.duration_s` at
    most. With 0 it always lasts that long."""
    users: int = Field(alias="load.users", default=0, ge=0)
    keep_alive: bool = Field(alias="load.keep_alive", default=True)
    requests_per_connection: int = Field(alias="load.requests_per_connection", default=0, ge=0)
    """Requests of one file after which a client opens a new connection; 0 for no limit."""
    tls_resumption: bool = Field(alias="load.tls_resumption", default=True)
    tls_version: Literal["", "1.2", "1.3"] = Field(alias="load.tls_version", default="")
    """The only TLS version that clients offer; empty for the newest that the server has."""
    file_set_connections: int = Field(alias="load.file_set_connections", default=0, ge=0)
    trace: str = Field(alias="load.trace", default="")
    """A recorded trace; empty for a synthesized one."""
    trace_requests: int = Field(alias="load.trace_requests", default=200_000, ge=1)
    latency_ms: float = Field(alias="network.latency_ms", default=0, ge=0)
    """Added latency, one way."""
    acknowledgments: Literal["adaptive", "each"] = Field(
        alias="network.acknowledgments", default="adaptive"
    )
    """Whether clients delay acknowledgments as Linux decides, or send one for each frame."""
    duration_factor: float = Field(alias="run.stretch", default=1.0, ge=1, allow_inf_nan=False)
    """Factor on the window for a load whose clients pause between requests."""
    server_command: str = Field(alias="server.command", default="")
    """The command of another server; `{root}`, `{address}` and `{cpus}` are replaced."""
    server_url: str = Field(alias="server.url", default="")
    """A URL whose path names a file is requested as it is. To any other, a load of one file appends
    `/file-N.bin`, where N is `load.size_bytes`."""
    server_kind: ServerKind = Field(alias="server.kind", default="perpacket")
    """`perpacket_lab.measure.web.peers` configures nginx and Apache."""
    application: str = Field(alias="server.application", default="")
    """An application of `perpacket application`; `load.connections` counts its clients."""
    tls_key: TlsKey = Field(alias="server.tls_key", default="")
    """Serve over TLS with a certificate of this kind of key; empty for plain HTTP."""
    server_threads: int = Field(alias="server.threads", default=0, ge=0)
    """Threads or processes in the pool of `serve web`; 0 for its own default."""
    processors: int = Field(alias="server.processors", default=0, ge=0)
    """Processors of the server; 0 for half of the machine's. Clients have the other half in any
    case, so they share processors with a server that has more than half."""
    server_options: str = Field(alias="server.options", default="")
    """Options of `serve web` as on its command line, or directives of nginx, each with its `;`.
    They replace those that perpacket sets. `{folder}` is the study's folder on the server."""
    architecture: str = Field(alias="server.architecture", default="events")

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        """Check the parameters that depend on each other."""
        if bool(self.server_command) != bool(self.server_url):
            raise ValueError(
                f"expected {named('server.command')} and {named('server.url')} together, or neither"
            )
        if self.server_command and "architecture" in self.model_fields_set:
            raise ValueError(
                f"{named('server.command')} and server.architecture exclude each other: "
                "this study has servers of its own"
            )
        if self.server_options and (self.server_command or self.is_apache or not self.is_web):
            raise ValueError("expected server.options only for nginx or `serve web`")
        if self.tls_key and (
            not self.is_web or self.application or self.server_command or self.is_apache
        ):
            raise ValueError("expected server.tls_key only for nginx or `serve web`")
        if not self.tls_key and (self.tls_version or not self.tls_resumption):
            raise ValueError("expected server.tls_key for options of TLS")
        if self.requests_per_connection and self.kind != "file":
            raise ValueError("expected load.requests_per_connection only for load.kind file")
        if self.requests and (self.kind != "file" or self.keep_alive):
            raise ValueError(
                "expected load.requests only for load.kind file without kept connections"
            )
        if self.processors and (self.application or self.network == "delayed"):
            raise ValueError("expected server.processors only without an application or latency")
        if self.latency_ms and self.network == "direct":
            raise ValueError("expected network.kind delayed where network.latency_ms is not 0")
        if (self.kind == "application") != bool(self.application):
            raise ValueError(
                f"expected {named('server.application')} for load.kind application, and only for it"
            )
        if self.kind == "webstone" and self.keep_alive:
            raise ValueError("expected load.keep_alive false: WebStone connects for each request")
        if self.kind == "surge" and not self.users:
            raise ValueError("expected load.users of 1 or more for a Surge load")
        return self

    @property
    def is_web(self) -> bool:
        """Whether a web server is under test, not the bulk sender."""
        return self.kind != "stream"

    @property
    def is_apache(self) -> bool:
        """Whether the server is Apache."""
        return self.server_kind.startswith("apache")

    @property
    def is_foreign(self) -> bool:
        """Whether the web server under test is another than `serve web`."""
        others = self.server_command or self.application or self.server_kind != "perpacket"
        return self.is_web and bool(others)

    @property
    def has_fixed_url(self) -> bool:
        """Whether clients request `server.url` itself: its path names a file, not a folder."""
        path = urlsplit(self.server_url).path
        return self.kind == "file" and bool(path) and not path.endswith("/")

    @property
    def window_s(self) -> float:
        """Length of the measured window."""
        return self.duration_s * self.duration_factor
