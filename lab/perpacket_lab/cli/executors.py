"""The executor of simulated runs, from the options of `study run`, `resume` and `rerun`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpacket.cli import progress
from perpacket.errors import ConfigurationError
from perpacket_lab.cli.study_options import ExecutorChoice

if TYPE_CHECKING:
    from perpacket_lab.run.jobs import Executor


def executor_of(
    choice: ExecutorChoice | None, cluster: str | None, workers: int | None, quiet: bool = False
) -> Executor | None:
    """The executor that the options select; None for the default.

    Raises `ConfigurationError` when the options contradict each other.
    """
    if cluster is not None:
        for option, value in (("--executor", choice), ("--workers", workers)):
            if value is not None:
                raise ConfigurationError(
                    f"{option} {value} has no effect with --cluster, which has its own workers",
                    parameter=option,
                    value=str(value),
                    hint=f"leave out {option}, or --cluster",
                )
        from perpacket_lab.run.cluster import ClusterExecutor

        return ClusterExecutor(cluster, lambda remark: progress.note(f"note: {remark}", quiet))
    if choice == "processes":
        from perpacket_lab.run.processes import ProcessExecutor

        return ProcessExecutor(workers)
    if workers is not None or choice == "threads":
        from perpacket_lab.run.threads import ThreadExecutor

        return ThreadExecutor(workers)
    return None
