"""Fixtures that several test files share."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import fake_core as fake
import perpacket


@pytest.fixture
def fake_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stand-in in the place of the compiled core."""
    module = fake.module()
    monkeypatch.setitem(sys.modules, "perpacket._core", module)
    monkeypatch.setattr(perpacket, "_core", module, raising=False)


@pytest.fixture
def fake_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a stub in place of the report: drawing takes seconds and has tests of its own."""
    monkeypatch.setattr("perpacket.report.write_study", fake.stub_report)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specifications and reference figures beside the repository."""
    default = Path(__file__).parents[2] / "shared"
    folder = Path(os.environ.get("PERPACKET_SHARED", default))
    if not folder.is_dir():
        pytest.skip(f"{folder.name} is not there")
    return folder
