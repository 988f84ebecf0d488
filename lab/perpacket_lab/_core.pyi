"""The compiled core (lab/crates/python): text in, JSON out. Use `simulation` instead."""

class ConfigurationError(ValueError):
    parameter: str
    value: str
    allowed: str

class RecordingFailure(ValueError): ...
class TraceError(ValueError): ...
class Interrupted(Exception): ...

class Simulation:
    def __init__(
        self,
        configuration: str,
        overrides: list[tuple[str, str]],
        seed: int,
        trace: str | None = None,
        timeline: bool = False,
    ) -> None: ...
    def run(self) -> str: ...
    def progress(self) -> tuple[int, int]: ...
    def cancel(self) -> None: ...
    def parameters(self) -> str: ...
    def timeline(self) -> str: ...

def trace_info(
    path: str,
    format: str | None = None,
    window_s: float = 15.0,
    log_fields: str | None = None,
) -> str: ...
def trace_convert(
    source: str,
    destination: str,
    to: str,
    format: str | None = None,
    object_paths: str | None = None,
    mappings: str | None = None,
) -> str: ...
def trace_synthesize(
    destination: str,
    workload: str,
    requests: int,
    seed: int,
    sessions_per_s: float,
    gap_mean_s: float,
    connections: int,
    format: str,
) -> str: ...
def emulate_footprint(path: str) -> str: ...
def emulate_replay(path: str, options: list[str]) -> str: ...
