"""Stored guests whose files are damaged are found, and made again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from perpacket.errors import MachineLacks
from perpacket_lab.emulate import folders, prepared
from perpacket_lab.emulate import session as sessions
from perpacket_lab.emulate.prepared import Prepared
from perpacket_lab.emulate.session import Session


def flip(file: Path, at: int) -> None:
    """Change one bit of a file."""
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ 1]))


def test_a_checksum_depends_on_every_bit_and_not_on_holes(tmp_path: Path) -> None:
    file, same = tmp_path / "file", tmp_path / "same"
    content = b"a" * 5000 + bytes(3 << 20) + b"b" + bytes(2 << 20)
    file.write_bytes(content)
    with same.open("wb") as opened:
        opened.write(b"a" * 5000)
        opened.seek(5000 + (3 << 20))
        opened.write(b"b")
        opened.truncate(len(content))
    whole = prepared.checksum(file)
    assert prepared.checksum(same) == whole != 0
    for at in (0, 4999, 2 << 20, 5000 + (3 << 20), len(content) - 1):
        flip(file, at)
        assert prepared.checksum(file) != whole
        flip(file, at)
    assert prepared.checksum(file) == whole
    assert prepared.checksum(tmp_path / "absent") == 0


@pytest.fixture(name="stored")
def stored_fixture(session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """A copy of the stored guest in a cache folder of its own, which may be damaged."""
    source = folders.cache()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for part in ("kernels", "self-tests"):
        if (source / part).exists():
            shutil.copytree(source / part, folders.cache() / part)
    folder = folders.cache() / "machines" / session.machine.key
    folder.mkdir(parents=True)
    for file in session.machine.folder.iterdir():
        # Copies without the holes of the memory would need 1 GiB.
        with file.open("rb") as opened, (folder / file.name).open("wb") as copy:
            while block := opened.read(1 << 20):
                if block.strip(b"\0"):
                    copy.write(block)
                else:
                    copy.seek(len(block), 1)
            copy.truncate(file.stat().st_size)
    return replace(session.machine, folder=folder)


@pytest.mark.full
@pytest.mark.parametrize("name", ["memory", "about.json"])
def test_a_damaged_guest_is_named_and_made_again(
    stored: Prepared, session: Session, name: str
) -> None:
    assert not stored.damaged
    flip(stored.folder / name, 0 if name == "about.json" else 100 << 20)
    assert stored.damaged == name
    with pytest.raises(MachineLacks, match=f"{name}: the file is damaged"):
        sessions.prepared_session()
    stages: list[str] = []
    again = sessions.open_session(sessions.Guest(), stages.append)
    assert stages[0].startswith(f"{stored.folder / name} is damaged")
    assert again.machine.folder == stored.folder
    assert again.machine.state_digest == session.machine.state_digest
    assert not again.machine.damaged
