"""Fixtures that several test files share."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import fake_core as fake
import invented
import perpacket_lab
import quiet
import requirements
from patience import be_patient
from perpacket_lab.analysis.analysis import Analysis, analyze
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import html as report
from perpacket_lab.study.study import Study
from probes import need
from requirements import skip

if TYPE_CHECKING:
    from perpacket_lab.emulate.session import Session

# The time of an example depends on the machine; every test run uses the same examples.
settings.register_profile(
    "tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Take a snapshot of the kernel's counts when a live test begins."""
    if item.get_closest_marker("live"):
        quiet.began[:] = [quiet.Snapshot()]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record skips, and fail tests that skip for no reason or lack a required capability."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if mistake := requirements.mistake_of(reason):
            report.outcome = "failed"
            report.longrepr = mistake
        else:
            requirements.record_skip(item.nodeid, reason)
    return report


@pytest.fixture(scope="session")
def session() -> Session:
    """A prepared emulated machine; a test without QEMU or a kernel is skipped."""
    from perpacket_lab.emulate.session import Guest, open_session

    need("qemu")
    return open_session(Guest(), lambda text: None)


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Raise time limits, so that no test fails because the machine is busy."""
    with pytest.MonkeyPatch.context() as patch:
        be_patient(patch.setattr)
        yield


@pytest.fixture
def fake_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the compiled core by the fake one."""
    module = fake.module()
    monkeypatch.setitem(sys.modules, "perpacket_lab._core", module)
    monkeypatch.setattr(perpacket_lab, "_core", module, raising=False)


@pytest.fixture
def fake_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a stub instead of the report: drawing takes seconds and has other tests."""
    monkeypatch.setattr("perpacket_lab.show.html.write", fake.stub_report)
    monkeypatch.setattr("perpacket_lab.show.html.write_charts", fake.stub_charts)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specifications and reference figures beside the repository."""
    default = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("PERPACKET_SHARED", default))
    if not folder.is_dir():
        skip("traces", f"{folder.name} does not exist")
    return folder


@pytest.fixture(scope="session")
def study() -> Study:
    """The invented study."""
    return invented.study()


@pytest.fixture(scope="session")
def run_directory(study: Study, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run of the invented study; tests that change a run make their own."""
    return start.run(study, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="session")
def analysis(study: Study, run_directory: RunDirectory) -> Analysis:
    """The analysis of that run."""
    return analyze(study, run_directory)


@pytest.fixture(scope="session")
def page(analysis: Analysis, run_directory: RunDirectory) -> Path:
    """The report of that run."""
    return report.write(analysis, run_directory.path / "report.html")


@pytest.fixture(scope="session")
def html(page: Path) -> str:
    """The text of the report."""
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def outline(html: str) -> invented.Outline:
    """The elements of the report; all must be closed."""
    outline = invented.Outline()
    outline.feed(html)
    assert not outline.open, "every element is closed"
    return outline
