"""`perpacket emulate --guest-setup`: its changes cost what they cost, in their own layers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpacket.errors import RunFailed
from perpacket_lab.emulate import files, folders, kernel
from perpacket_lab.emulate.debian import Packages
from perpacket_lab.emulate.session import Session
from perpacket_lab.emulate.settings import Scenario, Settings

SMALL = Settings(Scenario("web", 1), requests=20, warmup_requests=20, variants=1, by="function")

TRACKING = ("e1000", "crc32c_generic", "sch_ingress", "cls_matchall", "act_ct")
"""Modules with which every received frame passes through the tracking of connections. The first
one must exist, and is in the guest already."""

TRACK = """
/host/tc qdisc add dev eth0 clsact
/host/tc filter add dev eth0 ingress matchall action ct
"""


def with_setup(session: Session, folder: Path, text: str) -> dict[str, Any]:
    """The emulation of the small scenario after a set-up."""
    script = folder / "setup"
    script.write_text(text)
    return session.emulate(replace(SMALL, setup=script))


def instructions(document: dict[str, Any], part: str) -> dict[str, float]:
    (variant,) = document["by_variant"]
    return {name: own / 20 for name, own in variant["instructions"][part].items()}


@pytest.fixture(scope="module")
def modules(session: Session) -> dict[str, bytes]:
    """The modules of the guest's kernel that track connections, in the order of loading."""
    parent = folders.cache() / "tracking"
    source = kernel.from_packages(Packages(), kernel.PACKAGE, parent, TRACKING, is_plain=False)
    assert source.version == session.machine.kernel
    return {name: code for name, code in source.modules if name != TRACKING[0]}


def test_functions_of_a_module_loaded_by_the_setup_are_in_their_own_layer(
    session: Session, modules: dict[str, bytes], tmp_path: Path
) -> None:
    before = session.emulate(SMALL)
    for name, code in modules.items():
        (tmp_path / f"{name}.ko").write_bytes(code)
    own = replace(session, files=files.server_archive([], [*tmp_path.glob("*.ko")]))
    insert = "".join(f"insmod {tmp_path}/{name}.ko\n" for name in modules)
    after = with_setup(own, tmp_path, insert + TRACK)
    functions = instructions(after, "functions")
    tracking = functions["ip nf_conntrack_in"]
    assert tracking > 10
    assert all(name.startswith("ip ") for name in functions if " nf_" in name)
    layers = [
        sum(own for name, own in instructions(run, "layer_kinds").items() if name.startswith("ip "))
        for run in (before, after)
    ]
    assert layers[1] > layers[0] + tracking


def test_a_setup_changes_the_clients_side_too(session: Session, tmp_path: Path) -> None:
    delayed = with_setup(
        session, tmp_path, "$inside /host/tc qdisc add dev eth1 root netem delay 10ms\n"
    )
    assert delayed["guest_window_s"][0] > 20 * 0.01


def test_a_setup_that_fails_is_an_error_with_its_last_message(
    session: Session, tmp_path: Path
) -> None:
    with pytest.raises(RunFailed, match=r"the set-up ended with status 3; its last message: no"):
        with_setup(session, tmp_path, "echo \"no 'rule'\"\n(exit 3)\nexit 0\n")
