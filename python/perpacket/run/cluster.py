"""Jobs on the workers of a Dask cluster, for studies too large for one machine.

The scheduler gives jobs to workers and gives those of a worker that died to others. Workers need
this version of perpacket and write nothing: outcomes come back here. Dask cannot stop a run that a
worker has begun: after Ctrl-C it ends there by itself, and nobody hears of it.

Jobs travel pickled, so that a cluster must be one's own: who can reach its ports can run anything.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import perpacket
from perpacket.errors import ConfigurationError, MachineLacks, PerpacketError, RunFailed
from perpacket.run.jobs import POLL_S, Finished, Job, Results, failure, versions_differ
from perpacket.study.runner import Outcome

if TYPE_CHECKING:
    from distributed import Client, Future

ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://\S+:\d+")
"""Addresses of schedulers, with the transports that Dask has."""

EXTRA = "pip install 'perpacket[cluster]'"

ANSWER_S = 10.0
"""How long the scheduler may take to answer."""

WORKERLESS_S = 60.0
"""How long a cluster may be without any worker before the study gives up: new ones may come."""

LOOK_S = 2.0
"""How often the workers are counted."""


class ClusterExecutor:
    """Runs jobs on the cluster of one scheduler."""

    def __init__(
        self, address: str, on_remark: Callable[[str], None] = lambda remark: None
    ) -> None:
        """The cluster at `address`, as `tcp://HOST:8786`; raises `ConfigurationError` at others.

        `on_remark` is called when no worker is left, and when there is one again.
        """
        if not ADDRESS.fullmatch(address):
            raise ConfigurationError(
                f"--cluster {address}: this is no address of a scheduler",
                parameter="--cluster",
                value=address,
                allowed="give one such as tcp://127.0.0.1:8786, as `dask scheduler` prints it",
            )
        self.address = address
        self.on_remark = on_remark
        self._left = 0
        self._threads = 0

    def check(self) -> None:
        """Make sure that the cluster answers, has workers, and that all have this version.

        Raises `MachineLacks` where the extra, the scheduler or workers are missing, and
        `ConfigurationError` naming both versions where one differs.
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
        """Each job once, as it finishes, and None every `POLL_S` meanwhile."""
        ended: SimpleQueue[Future] = SimpleQueue()
        with self._connected() as client:
            # A name of its own for each job: what another study left there is no answer to this.
            session = uuid.uuid4().hex
            pending: dict[str, tuple[Job, Future]] = {}
            try:
                for job in jobs:
                    key = f"perpacket-{job.point.name}-seed-{job.seed}-{session}"
                    future = client.submit(perform, job, key=key)
                    pending[key] = (job, future)
                    future.add_done_callback(ended.put)
                watch = Watch(self, client)
                while pending:
                    self._left = len(pending)
                    try:
                        future = ended.get(timeout=POLL_S)
                    except Empty:
                        watch.look()
                        yield None
                        continue
                    job, future = pending.pop(future.key)
                    yield Finished(job, self._outcome(future))
            finally:
                self._left = 0
                client.cancel([future for _, future in pending.values()], force=True)

    def _outcome(self, future: Future) -> Outcome | PerpacketError:
        """What a job came to; a worker that dies with the outcome has the job done again."""
        if future.cancelled():
            return RunFailed(f"the scheduler at {self.address} was lost")
        try:
            outcome: Outcome | PerpacketError = future.result()
        except Exception as error:  # whatever Dask raises, as where every worker died of the job
            return failure(error)
        return outcome

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        """A client of the scheduler; raises `MachineLacks` where there is none."""
        try:
            import distributed
        except ImportError:
            raise MachineLacks(
                "--cluster needs Dask's distributed, which is not installed", hint=EXTRA
            ) from None
        try:
            client = distributed.Client(self.address, timeout=ANSWER_S, set_as_default=False)
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
        """As many runs as there can be; how far they are is not known here."""
        return [(0, 1)] * min(self._left, self._threads)

    def describe(self) -> Mapping[str, object]:
        """The number of threads of all workers; where they are is nobody's business."""
        return {"kind": "cluster", "workers": self._threads}


@contextmanager
def _quiet_logger() -> Iterator[None]:
    """Keep Dask's client from printing tracebacks of what is an error here."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class Watch:
    """Looks now and then whether a cluster still has workers."""

    def __init__(self, executor: ClusterExecutor, client: Client) -> None:
        self.executor, self.client = executor, client
        self._looked_s = self._had_workers_s = time.monotonic()
        self._is_waiting = False

    def look(self) -> None:
        """Count the workers; raises `RunFailed` when there were none for too long."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        address = self.executor.address
        try:
            self.executor._count(self.client)
        except OSError as error:
            raise RunFailed(f"the scheduler at {address} was lost: {error}") from None
        if self.executor._threads:
            if self._is_waiting:
                self.executor.on_remark(f"the cluster at {address} has workers again")
            self._had_workers_s, self._is_waiting = now_s, False
        elif now_s - self._had_workers_s > WORKERLESS_S:
            raise RunFailed(
                f"the cluster at {address} has been without workers for {WORKERLESS_S:.0f} s",
                hint=f"start some with `dask worker {address}`, then resume the study",
            )
        elif not self._is_waiting:
            self._is_waiting = True
            self.executor.on_remark(
                f"the cluster at {address} has no worker left: waiting {WORKERLESS_S:.0f} s for "
                f"one (`dask worker {address}`)"
            )


def perform(job: Job) -> Outcome | PerpacketError:
    """Do a job on a worker; an error is an answer too, since doing it again would not mend it."""
    try:
        return job.prepare().run()
    except BaseException as error:  # a panic of the core is no Exception
        return failure(error)


def check_versions(client: Client) -> None:
    """Raise `ConfigurationError` naming both versions where a worker or the scheduler has another.

    The scheduler reads jobs on their way, so that it needs perpacket too.
    """

    # Within this function it travels by value: it works where perpacket is not installed.
    def version() -> str | None:
        try:
            import perpacket
        except ImportError:
            return None
        return perpacket.__version__

    found = {"the scheduler": client.run_on_scheduler(version)}
    found |= {f"the worker at {where}": its for where, its in client.run(version).items()}
    for who, its_version in found.items():
        if its_version is None:
            raise ConfigurationError(
                f"{who} has no perpacket",
                parameter="--cluster",
                hint=f"install perpacket {perpacket.__version__} there",
            )
        if its_version != perpacket.__version__:
            raise versions_differ(who, its_version, perpacket.__version__)
