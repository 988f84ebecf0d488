"""Jobs on the workers of a Dask cluster, for studies too large for one machine.

The scheduler distributes jobs over workers, and repeats the jobs of a dead worker on others.
Workers need this version of perpacket. They return outcomes and write no file. Dask cannot stop a
run that a worker has begun: after Ctrl-C it runs to its end, and its outcome is lost.

Jobs are pickled. Use a cluster only in a trusted network: anyone who can connect to its ports can
run code on its workers.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

import perpacket
from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError, RunFailed
from perpacket_lab.run.jobs import Finished, Job, Results, failure, polled, versions_differ
from perpacket_lab.study.runner_interfaces import RunOutcome

if TYPE_CHECKING:
    from distributed import Client, Future

ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://\S+:\d+")
"""Addresses of schedulers, with the transports of Dask."""

EXTRA = "pip install 'perpacket[cluster]'"

CONNECT_S = 10.0
"""Time-out of the connection to the scheduler."""

MOST_WITHOUT_WORKERS_S = 60.0
"""The time that the study waits for new workers when none is left."""

CHECK_INTERVAL_S = 2.0
"""The interval at which the workers are counted."""


class ClusterExecutor:
    """Runs jobs on the cluster of one scheduler."""

    def __init__(
        self, address: str, on_remark: Callable[[str], None] = lambda remark: None
    ) -> None:
        """The cluster at `address`, as `tcp://HOST:8786`.

        Calls `on_remark` when the last worker disappears, and when a worker appears again. Raises
        `ConfigurationError` on an invalid address.
        """
        if not ADDRESS.fullmatch(address):
            raise ConfigurationError(
                f"--cluster {address}: expected the address of a scheduler",
                parameter="--cluster",
                value=address,
                allowed="use one such as tcp://127.0.0.1:8786, as `dask scheduler` prints it",
            )
        self.address = address
        self.on_remark = on_remark
        self._left = 0
        self._threads = 0

    def check(self) -> None:
        """Check that the cluster answers and has workers, all with this version.

        Raises `MachineLacks` when the extra, the scheduler or workers are missing, and
        `ConfigurationError` naming both versions when they differ.
        """
        with self._connected() as client:
            self._count(client)
            if not self._threads:
                raise MachineLacks(
                    f"the cluster at {self.address} has no worker",
                    hint=f"start some with `dask worker {self.address}`",
                )
            check_versions(client)

    def run(self, jobs: Sequence[Job]) -> Results:
        """Yield each job once, when it finishes, and None every `POLL_S`."""
        ended: SimpleQueue[Future] = SimpleQueue()
        with self._connected() as client:
            # Keys are unique to this start: Dask would return the old result of an equal key.
            start = uuid.uuid4().hex
            pending: dict[str, tuple[Job, Future]] = {}
            try:
                for job in jobs:
                    key = f"perpacket-{job.point.name}-seed-{job.seed}-{start}"
                    future = client.submit(perform, job, key=key)
                    pending[key] = (job, future)
                    future.add_done_callback(ended.put)
                worker_check = WorkerCheck(self, client)
                self._left = len(pending)
                for ended_future in polled(ended, len(pending)):
                    if ended_future is None:
                        worker_check.check()
                        yield None
                        continue
                    job, future = pending.pop(ended_future.key)
                    self._left = len(pending)
                    yield Finished(job, self._outcome(future))
            finally:
                self._left = 0
                client.cancel([future for _, future in pending.values()], force=True)

    def _outcome(self, future: Future) -> RunOutcome | PerpacketError:
        """The outcome of a job; Dask repeats the job if the worker with the outcome has died."""
        if future.cancelled():
            return RunFailed(f"the scheduler at {self.address} was lost")
        try:
            outcome: RunOutcome | PerpacketError = future.result()
        except Exception as error:  # Dask raises many types, KilledWorker among them
            return failure(error)
        return outcome

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        """A client of the scheduler; raises `MachineLacks` when none answers."""
        try:
            import distributed
        except ImportError:
            raise MachineLacks(
                "--cluster needs Dask's distributed, which is not installed", hint=EXTRA
            ) from None
        try:
            client = distributed.Client(self.address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise MachineLacks(
                f"no scheduler answers at {self.address}: {error}",
                hint="start one with `dask scheduler`",
            ) from None
        with client, _quiet_logger():
            yield client

    def _count(self, client: Client) -> None:
        self._threads = sum(client.nthreads().values())

    def active(self) -> Sequence[tuple[int, int]]:
        """One entry for each run that may be active; their progress is unknown."""
        return [(0, 1)] * min(self._left, self._threads)

    def describe(self) -> Mapping[str, object]:
        """The number of threads of all workers. Addresses stay private."""
        return {"kind": "cluster", "workers": self._threads}


@contextmanager
def _quiet_logger() -> Iterator[None]:
    """Suppress the tracebacks of Dask's client: this module raises errors instead."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class WorkerCheck:
    """Checks regularly that a cluster still has workers."""

    def __init__(self, executor: ClusterExecutor, client: Client) -> None:
        self.executor, self.client = executor, client
        self._checked_s = self._had_workers_s = time.monotonic()
        self._is_waiting = False

    def check(self) -> None:
        """Count the workers; raises `RunFailed` when there were none for too long."""
        now_s = time.monotonic()
        if now_s - self._checked_s < CHECK_INTERVAL_S:
            return
        self._checked_s = now_s
        address = self.executor.address
        try:
            self.executor._count(self.client)
        except OSError as error:
            raise RunFailed(f"the scheduler at {address} was lost: {error}") from None
        if self.executor._threads:
            if self._is_waiting:
                self.executor.on_remark(f"the cluster at {address} has workers again")
            self._had_workers_s, self._is_waiting = now_s, False
        elif now_s - self._had_workers_s > MOST_WITHOUT_WORKERS_S:
            raise RunFailed(
                f"the cluster at {address} has had no worker for {MOST_WITHOUT_WORKERS_S:.0f} s",
                hint=f"start some with `dask worker {address}`, then resume the study",
            )
        elif not self._is_waiting:
            self._is_waiting = True
            self.executor.on_remark(
                f"the cluster at {address} has no worker left: waiting "
                f"{MOST_WITHOUT_WORKERS_S:.0f} s for one (`dask worker {address}`)"
            )


def perform(job: Job) -> RunOutcome | PerpacketError:
    """Run a job on a worker. Errors are returned, because Dask repeats a job that raises one."""
    try:
        return job.prepare().run()
    except BaseException as error:  # a panic of the simulator is not an Exception
        return failure(error)


def check_versions(client: Client) -> None:
    """Raise `ConfigurationError` when a worker or the scheduler has another version.

    The scheduler unpickles jobs, so it needs perpacket too.
    """

    # A nested function is pickled by value, so it also runs where perpacket is not installed.
    def version() -> str | None:
        try:
            import perpacket
        except ImportError:
            return None
        return perpacket.__version__

    versions = {"the scheduler": client.run_on_scheduler(version)}
    versions |= {f"the worker at {where}": its for where, its in client.run(version).items()}
    for who, its_version in versions.items():
        if its_version is None:
            raise ConfigurationError(
                f"{who} has no perpacket",
                parameter="--cluster",
                hint=f"install perpacket {perpacket.__version__} there",
            )
        if its_version != perpacket.__version__:
            raise versions_differ(who, its_version, perpacket.__version__)
