"""The directory with all files of one run of a study.

    config.toml         the runs: every point with its overrides, and the seeds
    study.toml          the resolved study, sufficient to resume and report the run
    environment.json    the machine and the versions
    observations/       a JSON file for each observation
    raw/                timelines, and the complete reports of the programs of measured runs
    failures/           a JSON file for each failed measured run, until a repetition succeeds
    report.html         the last output of `study report`
    observations.parquet  the observations as one table, written when the study ends or stops

A file is written under a temporary name, flushed to disk and renamed, so that it is complete or
absent: a killed study loses only the active runs. Each observation has one file name, so that none
is counted twice.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from perpacket.errors import ConfigurationError, CorruptObservation, MissingStudy, RunFailed
from perpacket.whole_file import TEMPORARY, write_whole
from perpacket_lab.run import configuration_file, observation_file
from perpacket_lab.run.configuration_file import RunConfiguration
from perpacket_lab.run.observation_file import RunObservation
from perpacket_lab.study import stopping
from perpacket_lab.study.point import Point
from perpacket_lab.study.quantities import Row
from perpacket_lab.study.runner_interfaces import RunOutcome
from perpacket_lab.study.study import Study

if TYPE_CHECKING:
    import polars

CONFIGURATION = "config.toml"
DEFINITION = "study.toml"
ENVIRONMENT = "environment.json"
OBSERVATIONS = "observations"
RAW = "raw"
FAILURES = "failures"
REPORT = "report.html"
TABLE = "observations.parquet"
LOCK = ".lock"
FAILURE_SCHEMA = 1
"""Version of the layout of a failure's file."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A measured run that began and has no observation."""

    point: str
    seed: int
    reason: str


class RunDirectory:
    """A run directory on disk. `create` makes one, `open` reads one."""

    def __init__(self, path: Path, configuration: RunConfiguration) -> None:
        """Only `create` and `open` call this."""
        self.path = path
        self.configuration = configuration
        self._read: dict[Path, tuple[tuple[int, ...], RunObservation]] = {}

    @classmethod
    def create(
        cls, path: Path, configuration: RunConfiguration, environment: Mapping[str, object]
    ) -> RunDirectory:
        """Make the directory and write the configuration and the environment.

        Raises `ConfigurationError` when `path` exists and is not an empty directory, and when it
        cannot be made. The directory of a run that was killed before it wrote the configuration
        counts as empty.
        """
        check_vacant(path)
        for folder in (OBSERVATIONS, RAW):
            _make_folder(path, path / folder)
        write_whole(path / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
        if configuration.definition:
            write_whole(path / DEFINITION, configuration.definition)
        # Write it last, because a directory with a configuration can be resumed.
        write_whole(path / CONFIGURATION, configuration_file.to_toml(configuration))
        return cls(path, configuration)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Read the configuration of a run.

        Raises `MissingStudy` when `path` is no run directory, and `ConfigurationError` when its
        configuration cannot be read.
        """
        file = path / CONFIGURATION
        if not file.is_file():
            raise MissingStudy(
                f"{path} is no run directory: it has no {CONFIGURATION}",
                hint="use the directory that `perpacket study run` printed when it began",
            )
        configuration = configuration_file.read(file)
        definition = path / DEFINITION
        if definition.is_file():
            text = definition.read_text(encoding="utf-8")
            configuration = replace(configuration, definition=text)
        return cls(path, configuration)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory for writing; the kernel unlocks it even when the process is killed.

        Makes missing folders, because some archives omit empty ones. Raises `RunFailed` when
        another process has the lock.
        """
        for folder in (OBSERVATIONS, RAW):
            _make_folder(self.path, self.path / folder)
        with (self.path / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunFailed(
                    f"another perpacket writes to {self.path}",
                    hint="wait until it has ended, or stop it",
                ) from None
            self._remove_leftovers()
            yield

    def _remove_leftovers(self) -> None:
        """Remove the temporary files of a killed run."""
        for folder in (self.path, *(self.path / name for name in (OBSERVATIONS, RAW, FAILURES))):
            for leftover in folder.glob(f"*{TEMPORARY}"):
                leftover.unlink(missing_ok=True)

    @property
    def report_path(self) -> Path:
        """The default file of the report."""
        return self.path / REPORT

    def environment(self) -> dict[str, object]:
        """The machine and versions of the run; empty without the file.

        No result depends on them. Raises `CorruptObservation` when the file is damaged.
        """
        file = self.path / ENVIRONMENT
        hint = "restore the file from a copy, or move it away: no result depends on it"
        return read_json(file, hint) if file.exists() else {}

    def study(self) -> Study:
        """The study of the run, with the run's points.

        Raises `ConfigurationError` when the stored study lacks one of them.
        """
        return configuration_file.study_of(self.configuration)

    def observation_path(self, point: str, seed: int) -> Path:
        """The file of one observation, whether it exists or not."""
        return self.path / OBSERVATIONS / f"{point}.seed-{seed}.json"

    def timeline_path(self, point: str, seed: int) -> Path:
        """The file of one timeline, whether it exists or not."""
        return self.path / RAW / f"{point}.seed-{seed}.timeline.json"

    def raw_path(self, point: str, seed: int, name: str) -> Path:
        """The file of one program's report in a measured run, whether it exists or not."""
        return self.path / RAW / f"{point}.seed-{seed}.{name}.json"

    def failure_path(self, point: str, seed: int) -> Path:
        """The file of a failed run, whether it exists or not."""
        return self.path / FAILURES / f"{point}.seed-{seed}.json"

    def record(self, point: Point, seed: int, outcome: RunOutcome) -> None:
        """Store one observation, after its raw parts, so that it never exists without them."""
        for name, content in outcome.raw.items():
            write_whole(self.raw_path(point.name, seed, name), json.dumps(content) + "\n")
        if outcome.timeline is not None:
            text = json.dumps(outcome.timeline) + "\n"
            write_whole(self.timeline_path(point.name, seed), text)
        text = observation_file.to_json(self.configuration.study, point, seed, outcome)
        write_whole(self.observation_path(point.name, seed), text)
        self.failure_path(point.name, seed).unlink(missing_ok=True)

    def record_failure(self, failure: Failure) -> None:
        """Store the reason why a run has no observation."""
        (self.path / FAILURES).mkdir(exist_ok=True)
        text = json.dumps({"schema": FAILURE_SCHEMA, **asdict(failure)}, indent=2) + "\n"
        write_whole(self.failure_path(failure.point, failure.seed), text)

    def failures(self) -> list[Failure]:
        """The runs that failed and are still missing, in the order of points and seeds.

        Raises `CorruptObservation` when a file is not from this run.
        """
        failed = []
        for point in self.configuration.points:
            for seed in self.configuration.seeds:
                file = self.failure_path(point.name, seed)
                # An observation from a repetition replaces the failure.
                if file.is_file() and not self.observation_path(point.name, seed).exists():
                    reason = read_json(file).get("reason")
                    failed.append(Failure(point.name, seed, str(reason)))
        return failed

    def missing(self) -> list[tuple[Point, int]]:
        """The runs that are due: all points with one seed, then all points with the next.

        In this order the runs of an interrupted study are spread over all points. With a stopping
        rule, the results of these runs may make others due. Raises `CorruptObservation` when an
        observation is damaged.
        """
        have = {
            (observation.point, observation.seed): observation
            for observation in self.read_observations()
        }
        due = {point.name: self._due(point, have) for point in self.configuration.points}
        return [
            (point, seed)
            for seed in self.configuration.seeds
            for point in self.configuration.points
            if seed in due[point.name] and (point.name, seed) not in have
        ]

    def _due(self, point: Point, have: Mapping[tuple[str, int], RunObservation]) -> Collection[int]:
        """The seeds that a point needs, by the results so far."""
        rule, seeds = self.configuration.stopping, self.configuration.seeds
        if rule is None:
            return seeds
        finished = list(takewhile(lambda seed: (point.name, seed) in have, seeds))
        values = [
            observation_file.number(have[point.name, seed], rule.quantity) for seed in finished
        ]
        if stopping.runs_enough(rule, values) is not None:
            return ()
        return seeds[: max(rule.least, len(finished) + 1)]

    def planned(self, only: Collection[str] | None = None) -> int:
        """The number of observations of the complete run, by the results so far.

        `only` names the points that count; by default all do.
        """
        names = {point.name for point in self.configuration.points}
        names &= names if only is None else set(only)
        if self.configuration.stopping is None:
            return len(names) * len(self.configuration.seeds)
        have = sum(observation.point in names for observation in self.read_observations())
        return have + sum(point.name in names for point, _ in self.missing())

    def times(self) -> tuple[datetime, datetime]:
        """The times (UTC) of the directory's creation and of its last observation."""
        began = (self.path / CONFIGURATION).stat().st_mtime
        files = (self.path / OBSERVATIONS).glob("*.json")
        last = max((file.stat().st_mtime for file in files), default=began)
        return datetime.fromtimestamp(began, UTC), datetime.fromtimestamp(max(began, last), UTC)

    def rows(self) -> dict[str, dict[int, Row]]:
        """The observations as flat rows, by point and seed."""
        return observation_file.rows_from(self.configuration.points, self.read_observations())

    def read_observations(self) -> list[RunObservation]:
        """The observations that exist, in the order of points and seeds.

        Raises `CorruptObservation` naming each file that is not from this run.
        """
        observations: list[RunObservation] = []
        damaged: list[str] = []
        for point in self.configuration.points:
            for seed in self.configuration.seeds:
                file = self.observation_path(point.name, seed)
                try:
                    observations.append(self._observation(file, point, seed))
                except FileNotFoundError:
                    continue
                except CorruptObservation as error:
                    damaged.append(str(error))
        damaged += [
            f"{self.observation_path(observation.point, observation.seed)}: damaged: {problem}"
            for observation, problem in observation_file.texts_for_numbers(observations)
        ]
        if damaged:
            raise CorruptObservation(
                "; ".join(damaged),
                hint="look at the file, then move it away and resume: perpacket repeats the run",
            )
        return observations

    def _observation(self, file: Path, point: Point, seed: int) -> RunObservation:
        """An observation, read and checked again only if its file has changed."""
        status = file.stat()
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        if file not in self._read or self._read[file][0] != version:
            observation = observation_file.read(file, self.configuration.study, point, seed)
            self._read[file] = version, observation
        return self._read[file][1]

    def observations(self) -> polars.DataFrame:
        """The observations as a table of one row each.

        Columns: `point`, `configuration`, `seed`, one for each factor, then the result's numbers
        with dotted names (`layers.tcp.cycles_per_packet`) and the timings (`timing.wall_s`).
        """
        return observation_file.to_table(self.configuration.points, self.read_observations())

    def to_polars(self) -> polars.DataFrame:
        """The same as `observations`: all results have this method."""
        return self.observations()

    def timelines(self) -> list[tuple[str, int]]:
        """The points and seeds with a stored timeline."""
        return [
            (point.name, seed)
            for point in self.configuration.points
            for seed in self.configuration.seeds
            if self.timeline_path(point.name, seed).is_file()
        ]

    def timeline(self, point: str, seed: int) -> polars.DataFrame:
        """One timeline: `time_s`, `connections_on_nic`, `soft_limit`, `queue_packets`, `state`."""
        import polars

        return polars.DataFrame(read_json(self.timeline_path(point, seed)))


def check_vacant(path: Path) -> None:
    """Raise `ConfigurationError` when `path` exists and is not empty."""
    if path.exists() and not _is_vacant(path):
        raise ConfigurationError(
            f"{path} exists already",
            parameter="output",
            value=str(path),
            hint=f"continue it with `perpacket study resume {path}`, or use another --output",
        )


def _make_folder(path: Path, folder: Path) -> None:
    """Make a folder of a run directory; raises `ConfigurationError` naming the directory."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the run directory {path} cannot be made: {(error.strerror or str(error)).lower()}",
            parameter="output",
            value=str(path),
            hint="use --output with a directory that can be made and written to",
        ) from None


def _is_vacant(path: Path) -> bool:
    """Whether a directory is empty, or `create` was killed before it wrote the configuration."""
    if not path.is_dir():
        return False
    names = {entry.name for entry in path.iterdir()}
    folders = names & {OBSERVATIONS, RAW}
    files = {
        DEFINITION,
        ENVIRONMENT,
        *(name + TEMPORARY for name in (CONFIGURATION, DEFINITION, ENVIRONMENT)),
    }
    if names - folders - files or any(not (path / name).is_file() for name in names & files):
        return False
    # `create` makes the folders first, so files without them are not from a run.
    return (not names or OBSERVATIONS in names) and not any(
        not (path / name).is_dir() or any((path / name).iterdir()) for name in folders
    )


def read_json(file: Path, hint: str = "") -> dict[str, object]:
    """The object in a JSON file; raises `CorruptObservation` with the hint if there is none."""
    try:
        content = observation_file.parse(file.read_bytes())
    except (OSError, ValueError) as error:
        raise CorruptObservation(f"{file}: cannot be read: {error}", hint) from None
    if not isinstance(content, dict):
        raise CorruptObservation(f"{file}: expected a JSON object", hint)
    return content
