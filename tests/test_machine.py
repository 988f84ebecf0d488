"""The findings of `doctor` on imitated machines (files and errors), and on this machine."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import pytest

from perpacket import machine
from perpacket.cli.app import run
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket.machine import (
    Capability,
    bpf,
    disciplines,
    leftovers,
    memory,
    network,
    processors,
    programs,
)
from perpacket.machine.capability import Check, Group
from perpacket.machine.files import Files
from perpacket.measure.cpu_lists import numbers, ranges
from perpacket.measure.hosts import record
from perpacket_lab.machine import applications

CPU = "sys/devices/system/cpu"

CHECK = Check("thing", Group.NETWORK, "all is lost", "buy one")


def made_of(folder: Path, contents: dict[str, str]) -> Files:
    """A machine with these files in /proc and /sys."""
    for name, text in contents.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return Files(folder)


def named(found: list[Capability], name: str) -> Capability:
    return next(item for item in found if item.name == name)


def test_only_a_missing_capability_has_a_next_step() -> None:
    assert CHECK.result(True, "here") == Capability("thing", True, "here", "", "", Group.NETWORK)
    lack = CHECK.result(False, "gone")
    assert (lack.cost_of_lack, lack.next_step) == ("all is lost", "buy one")


def test_the_detail_is_the_error_of_the_system() -> None:
    def refuse() -> str:
        raise PermissionError(1, "Operation not permitted")

    assert CHECK.attempt(refuse).detail == "operation not permitted"
    assert CHECK.attempt(lambda: "it opens").detail == "it opens"


@pytest.mark.parametrize(
    ("text", "values"), [("0-1", [0, 1]), ("0,2-4,7", [0, 2, 3, 4, 7]), ("5", [5]), ("", [])]
)
def test_lists_of_processors_are_read_and_written_as_the_kernel_does(
    text: str, values: list[int]
) -> None:
    assert numbers(text) == values
    assert ranges(values) == text


def test_an_invalid_list_of_processors_is_an_error() -> None:
    with pytest.raises(ValueError, match="numbers and ranges below 1024"):
        numbers("0-1,x,3-")


def test_threads_of_one_core_and_shared_caches_are_named(tmp_path: Path) -> None:
    contents = {f"{CPU}/online": "0-3"}
    for cpu in range(4):
        first = cpu // 2 * 2
        contents |= {
            f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{first}-{first + 1}",
            f"{CPU}/cpu{cpu}/cache/index0/level": "1",
            f"{CPU}/cpu{cpu}/cache/index0/size": "32K",
            f"{CPU}/cpu{cpu}/cache/index0/shared_cpu_list": f"{first}-{first + 1}",
            f"{CPU}/cpu{cpu}/cache/index3/level": "3",
            f"{CPU}/cpu{cpu}/cache/index3/size": "8192K",
            f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list": "0-3",
        }
    files = made_of(tmp_path, contents)
    found = processors.capabilities(files, usable=[0, 1, 2, 3])
    assert named(found, "two_processors").available
    assert named(found, "all_processors").available
    assert named(found, "own_cores").detail == "threads of one core: 0-1; 2-3"
    assert named(found, "own_caches").detail == (
        "shared: L1 of 32K by 0-1 and 2-3; L3 of 8192K by 0-3"
    )
    # Stolen time of processors that this process may not use does not count.
    found = processors.capabilities(files, usable=[0, 2])
    assert named(found, "own_cores").available
    assert named(found, "own_caches").detail == "shared: L3 of 8192K by 0,2"
    assert named(found, "all_processors").detail == "0,2 of 0-3 usable"
    assert not named(processors.capabilities(files, usable=[1]), "two_processors").available


@pytest.mark.parametrize(
    ("contents", "detail"),
    [
        ({}, "no control group limits processor time"),
        ({"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, "no control"),
        (
            {"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "150000 100000"},
            "limited to the time of 1.5 processors",
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "50000",
                "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000",
            },
            "limited to the time of 0.5 processors",
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/x",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000",
            },
            "no control group",
        ),
    ],
)
def test_the_smallest_quota_of_the_parents_counts_in_both_versions_of_control_groups(
    tmp_path: Path, contents: dict[str, str], detail: str
) -> None:
    found = processors.quota(made_of(tmp_path, contents))
    assert found.detail.startswith(detail)
    assert found.available == detail.startswith("no control")


def test_stolen_time_is_reported_as_a_share_of_all_time(tmp_path: Path) -> None:
    contents = {"proc/cpuinfo": "flags\t\t: fpu hypervisor"}
    quiet = made_of(tmp_path / "quiet", contents | {"proc/stat": "cpu 500 0 0 500 0 0 0 1 9 9"})
    robbed = made_of(tmp_path / "robbed", contents | {"proc/stat": "cpu 500 0 0 400 0 0 0 100 0 0"})
    assert processors.steal(quiet).available
    assert not processors.steal(robbed).available
    assert processors.steal(robbed).detail == (
        "a virtual machine; 10.00% of its time stolen since start"
    )
    assert processors.steal(Files(tmp_path / "nothing")).detail.endswith("count stolen time")


@pytest.mark.parametrize(("name", "fast"), [("tsc", True), ("hpet", False), ("", False)])
def test_a_clock_that_needs_a_system_call_is_a_missing_capability(
    tmp_path: Path, name: str, fast: bool
) -> None:
    folder = "sys/devices/system/clocksource/clocksource0"
    files = made_of(tmp_path, {f"{folder}/current_clocksource": name})
    assert processors.clock(files).available is fast


def test_segmentation_offload_of_one_interface_is_enough() -> None:
    answers = {"lo": ["GRO"], "eth0": ["TSO", "GSO"]}

    def look(interface: str) -> list[str]:
        if interface not in answers:
            raise OSError(95, "Operation not supported")
        return answers[interface]

    found = network.segmentation(["lo", "eth0", "can0"], look)
    assert found.available
    assert found.detail == "lo: GRO; eth0: TSO GSO"
    assert not network.segmentation(["lo"], look).available
    assert network.segmentation(["can0"], look).detail == "no interface reports its offloads"


def test_a_queueing_discipline_is_available_if_an_interface_accepts_it() -> None:
    lack = Check("netem", Group.NETWORK, "no latency", "go without").result(False, "not listed")
    works = disciplines.tried(lack, lambda name: (0, ""))
    assert works.available
    assert not works.next_step
    unknown = disciplines.tried(lack, lambda name: (2, "Error: qdisc kind is unknown."))
    assert "unknown" in unknown.detail
    assert unknown.next_step == "go without"
    forbidden = disciplines.tried(lack, lambda name: (1, "unshare: not permitted"))
    assert forbidden == lack


def test_huge_pages_that_the_kernel_does_not_provide_are_a_missing_capability(
    tmp_path: Path,
) -> None:
    setting = {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}
    none = setting | {"proc/self/smaps_rollup": "Rss: 9 kB\nAnonHugePages:         0 kB"}
    some = setting | {"proc/self/smaps_rollup": "Rss: 9 kB\nAnonHugePages:      6144 kB"}
    assert memory.huge_pages(made_of(tmp_path / "some", some)).available
    lack = memory.huge_pages(made_of(tmp_path / "none", none))
    assert not lack.available
    assert "always madvise [never]" in lack.detail


def test_an_application_without_its_packages_names_them_and_the_command() -> None:
    found = applications.capabilities(lambda names: [one for one in names if "maria" in one])
    lacking = {one.name: one for one in found if not one.available}
    assert list(lacking) == ["wordpress"]
    assert lacking["wordpress"].detail == "missing packages: mariadb-server"
    assert "perpacket application prepare wordpress" in lacking["wordpress"].next_step


def test_a_missing_program_is_reported_with_its_package() -> None:
    found = programs.capabilities(lambda name: "/bin/wrk" if name == "wrk" else None)
    assert named(found, "wrk").detail == "/bin/wrk"
    assert "apt-get install nginx-light" in named(found, "nginx").next_step


def test_a_machine_with_nothing_lacks_every_capability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setenv("PERPACKET_AGENT", "/dev/null")
    monkeypatch.setattr(bpf, "load", refuse)
    found = machine.examine(Files(tmp_path))
    assert not named(found, "agent").available
    assert named(found, "xdp").detail == "operation not permitted"
    for item in found:
        assert item.available or item.cost_of_lack, f"{item.name}: its lack costs nothing?"
        assert item.available or item.next_step, f"{item.name}: nothing to do?"


def test_without_an_agent_its_capabilities_are_missing_and_not_unknown() -> None:
    alone = [machine.kernel.CHECK.result(False, "no executable")]
    with pytest.raises(MachineLacks, match="agent is missing"):
        machine.check(alone, ["pmu"])
    with pytest.raises(ConfigurationError, match="unicorns"):
        machine.check(alone, ["unicorns"])


def test_namespaces_of_a_killed_study_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "folder_path", lambda: tmp_path)
    assert leftovers.capability().available
    names = ["perpacket-0badcafe-server", "perpacket-0badcafe-client"]
    dead = {"pid": 1, "start_ticks": -1}
    content = {"schema": 1, "owner": dead, "run": "0badcafe", "namespaces": [*names, "other"]}
    (tmp_path / "0badcafe.json").write_text(json.dumps(content))
    found = leftovers.capability()
    assert not found.available
    assert all(name in found.detail for name in names)
    assert "other" not in found.detail
    assert (tmp_path / "0badcafe.json").exists(), "doctor removes nothing"


def test_a_machine_without_records_of_studies_has_nothing_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "folder_path", lambda: tmp_path / "none")
    assert leftovers.capability().available
    assert not (tmp_path / "none").exists(), "doctor makes nothing"


def test_one_error_names_all_missing_required_capabilities() -> None:
    lacks = [Check(name, Group.NETWORK, "", f"get {name}").result(False, "") for name in "ab"]
    with pytest.raises(MachineLacks) as caught:
        machine.check([*lacks, CHECK.result(True, "")], ["a", "thing", "b"])
    assert caught.value.hint == "a: get a; b: get b"


def printed_by(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Standard output of a command line that must succeed."""
    printed = StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    assert run(arguments) == 0
    return printed.getvalue()


def test_the_doctor_reports_in_80_columns_each_missing_capability_with_its_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    # One examination for all three, because two on a busy machine may have different results.
    found = machine.examine()
    monkeypatch.setattr(machine, "examine", lambda: found)
    document = json.loads(printed_by(["doctor", "--format", "json"], monkeypatch))
    assert document["schema"] == 2
    text = printed_by(["doctor"], monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    names = [item["name"] for item in document["capabilities"]]
    assert len(names) == len(set(names))
    for item in document["capabilities"]:
        assert f"{'yes' if item['available'] else 'no':<5}{item['name']}" in text
        assert bool(item["cost_of_lack"]) is not item["available"], item
    there = [item["name"] for item in document["capabilities"] if item["available"]]
    assert run(["doctor", "--require", ",".join(there)]) == 0
