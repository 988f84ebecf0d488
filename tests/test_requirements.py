"""On a machine that has everything that a test needs, the test cannot pass by a skip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

SKIPPING = """
import pytest
from requirements import skip

def test_without_perf() -> None:
    skip("perf", "nobody may sample")

def test_without_a_reason_that_counts() -> None:
    pytest.skip("I do not feel like it")

@pytest.mark.skipif(True, reason="peers: there is no other server")
def test_with_a_mark() -> None:
    pass
"""


def run(tmp_path: Path, required: str) -> subprocess.CompletedProcess[str]:
    """Run the tests above with `required` in `PERPACKET_REQUIRE`."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(SKIPPING)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'python'}",
            "PERPACKET_REQUIRE": required,
            "PERPACKET_SKIPS": str(tmp_path / "skips"),
        },
    )


def test_a_missing_capability_skips_and_is_recorded(tmp_path: Path) -> None:
    done = run(tmp_path, "netns")
    assert "1 failed, 2 skipped" in done.stdout
    assert (tmp_path / "skips").read_text() == (
        "perf: test_it.py::test_without_perf: nobody may sample\n"
        "peers: test_it.py::test_with_a_mark: there is no other server\n"
    )


def test_a_missing_capability_fails_where_it_is_required(tmp_path: Path) -> None:
    done = run(tmp_path, "peers,perf")
    assert "2 failed, 1 error" in done.stdout
    for lack in (
        "perf is required here (PERPACKET_REQUIRE), but: nobody may sample",
        "peers is required here (PERPACKET_REQUIRE), but: there is no other server",
    ):
        assert lack in done.stdout


@pytest.mark.parametrize("required", ["", "perf"])
def test_a_skip_without_a_capability_fails(tmp_path: Path, required: str) -> None:
    done = run(tmp_path, required)
    assert "FAILED test_it.py::test_without_a_reason_that_counts" in done.stdout
