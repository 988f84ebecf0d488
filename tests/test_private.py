"""perpacket acts on files only if no other user can have written them."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from perpacket import private
from perpacket.advise import crashed, guardian, journal, settings
from perpacket.advise.network_scope import NetworkScope
from perpacket.errors import MachineLacks
from perpacket.machine import leftovers
from perpacket.measure.hosts import record
from perpacket_lab.emulate import folders
from perpacket_lab.measure.applications import preparation
from requirements import skip

OTHER = 65_533
"""The user who plants a file."""


def as_user(user: int, function: Callable[[], str]) -> str:
    """The result of `function` in a child process that runs as a user without rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = "the child failed"
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            text = function()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, text.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


@pytest.fixture(name="victim")
def victim_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A user without a runtime folder, whose folder in /tmp another user has made."""
    if os.geteuid() != 0:
        skip("root", "the test becomes other users")
    for name in ("PERPACKET_JOURNAL", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    user = random.SystemRandom().randrange(40_000, 60_000)
    folder = Path(f"/tmp/perpacket-{user}")
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    os.chown(folder, OTHER, OTHER)
    yield user
    shutil.rmtree(folder)


def text_of(function: Callable[[], object]) -> str:
    """The text of a function's result."""
    return str(function())


def plant_journal(victim: int, proof: Path) -> Path:
    """A journal whose step runs a command of another user."""
    folder = Path(f"/tmp/perpacket-{victim}")
    (folder / "marker").write_text("")
    command = {"kind": "command", "do": "true", "undo": f"touch {proof}"}
    step = {
        "record": {**command, "marker": str(folder / "marker")},
        "interface": "",
        "namespace": Path("/proc/self/ns/net").stat().st_ino,
        "title": "`true`",
        "before": "undone",
        "changed": "done",
        "cookie": NetworkScope().cookie,
        "index": 0,
    }
    document = {
        **{"schema": journal.SCHEMA, "boot": journal.BOOT.read_text().strip()},
        **{"pid": 4_000_000, "started": "1", "guardian": 4_000_001, "steps": [step]},
    }
    file = folder / "trial.json"
    file.write_text(json.dumps(document))
    for path in folder.iterdir():
        os.chown(path, OTHER, OTHER)
        path.chmod(0o666)
    return file


def test_a_planted_journal_is_refused_and_named(victim: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    proof = tmp_path / "proof"
    file = plant_journal(victim, proof)
    settings.open({"kind": "command", "do": "a", "undo": "b"}, NetworkScope())

    text = as_user(victim, lambda: str(journal.undo()))
    assert not proof.exists()
    assert text.startswith(f"MachineLacks: {file.parent}: it belongs to another user ({OTHER})")
    found = as_user(victim, lambda: crashed.capability().detail)
    assert f"{file.parent}: it belongs to another user" in found

    def guard() -> str:
        sys.argv = ["guardian", str(file)]
        return str(guardian.main())

    assert f"{file.parent}: it belongs to another user" in as_user(victim, guard)


def test_planted_records_of_testbeds_are_refused(victim: int) -> None:
    for function in (record.folder, record.remove_leftovers):
        text = as_user(victim, partial(text_of, function))
        assert text.startswith("MachineLacks")
        assert f"perpacket-{victim}" in text
    assert f"perpacket-{victim}" in as_user(victim, lambda: leftovers.capability().detail)


def test_planted_kernels_and_applications_are_refused(
    victim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's cache in a folder of another user, as after `su` with the environment kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"/tmp/perpacket-{victim}/cache")
    os.makedirs(f"/tmp/perpacket-{victim}/cache/perpacket")
    os.chown(f"/tmp/perpacket-{victim}/cache", victim, victim)
    os.chown(f"/tmp/perpacket-{victim}/cache/perpacket", victim, victim)
    for function in (folders.cache, preparation.cache):
        text = as_user(victim, partial(text_of, function))
        assert text.startswith("MachineLacks"), text
        assert f"(/tmp/perpacket-{victim}): it belongs to another user" in text


def test_a_folder_that_others_can_write_or_redirect_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    folder = private.made(tmp_path / "above" / "folder")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o720)
    if os.getgid():
        with pytest.raises(MachineLacks, match="other users can write there"):
            private.checked(folder)
    folder.chmod(0o702)
    with pytest.raises(MachineLacks, match="other users can write there"):
        private.checked(folder)
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    with pytest.raises(MachineLacks, match=r"above\): other users can write there"):
        private.checked(folder)
    folder.parent.chmod(0o1777)
    assert private.checked(folder) == folder
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(MachineLacks, match="it is a symbolic link"):
        private.checked(link)
    assert private.checked(link / "below") == link / "below"
    (tmp_path / "file").touch()
    with pytest.raises(MachineLacks, match="it is no folder"):
        private.checked(tmp_path / "file")
