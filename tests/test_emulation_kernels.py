"""Kernels by their versions: names, package lists, configurations, and the steps between them."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from perpacket.cli import app
from perpacket.errors import ConfigurationError, MachineLacks
from perpacket_lab.analysis import emulation_comparison, kernel_steps
from perpacket_lab.analysis.estimates import Estimates
from perpacket_lab.emulate import debian, debian_kernels, folders, kernel, kernel_options
from perpacket_lab.emulate.hardware import Hardware
from perpacket_lab.emulate.kernel import Kernel
from perpacket_lab.emulate.runner import EmulatedRunner, Passes, PointPlan, result
from perpacket_lab.run.observation_file import RunObservation, rows_from
from perpacket_lab.show import kernel_tables
from perpacket_lab.study import library
from perpacket_lab.study.point import Point
from test_emulation import window
from test_emulation_compare import document

OFFERS = {
    "bullseye": ["5.10.0-34-amd64", "5.10.0-35-amd64", "5.10.0-35-cloud-amd64"],
    "bookworm-backports": ["6.12.30+deb12-amd64", "6.12.9+deb12-amd64"],
    "trixie": ["6.12.48+deb13-amd64", "6.12.48+deb13-rt-amd64", "6.12.48+deb13-amd64-unsigned"],
    "sid": ["7.2.13+deb14-amd64", "6.12.48+deb13-amd64", "7.2-amd64"],
}
"""The kernels of invented suites."""


class SuiteLists:
    """The package lists of a suite."""

    def __init__(self, suite: str) -> None:
        self.suite = suite

    def names(self, prefix: str) -> list[str]:
        return [f"{prefix}{version}" for version in OFFERS[self.suite]]


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Invented suites. The list names those that were read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    read: list[str] = []

    def suite(name: str, architecture: str, *, newest: bool = False) -> SuiteLists:
        read.append(name)
        if name not in OFFERS:
            raise MachineLacks(f"the suite {name} has no package lists here")
        return SuiteLists(name)

    def fetched(packages: SuiteLists, package: str, parent: Path, needed: object) -> Kernel:
        return Kernel(f"{package} of {packages.suite}", b"", ())

    monkeypatch.setattr(debian, "suite", suite)
    monkeypatch.setattr(kernel, "from_packages", fetched)
    return read


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("5.10", "linux-image-5.10.0-35-amd64 of bullseye"),
        ("6.12", "linux-image-6.12.48+deb13-amd64 of trixie"),
        ("6.12+deb12", "linux-image-6.12.30+deb12-amd64 of bookworm-backports"),
        ("6.12-rt", "linux-image-6.12.48+deb13-rt-amd64 of trixie"),
        ("6.12.9+deb12-amd64", "linux-image-6.12.9+deb12-amd64 of bookworm-backports"),
        ("7.2", "linux-image-7.2.13+deb14-amd64 of sid"),
    ],
)
@pytest.mark.usefixtures("suites")
def test_a_name_is_the_newest_kernel_of_a_release(name: str, expected: str) -> None:
    assert debian_kernels.get(name).version == expected


@pytest.mark.usefixtures("suites")
def test_a_release_is_no_prefix_of_another() -> None:
    with pytest.raises(MachineLacks, match=r"debian:6\.1: no suite") as lack:
        debian_kernels.get("6.1")
    assert "emulate kernels" in lack.value.hint


@pytest.mark.parametrize("name", ["", "six", "6", "6.12/trixie", "6.12-cloud", "../6.12"])
def test_a_name_that_is_no_version_is_a_usage_error(
    name: str, suites: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigurationError, match="expected a version"):
        debian_kernels.get(name)
    assert not suites


def test_a_stored_kernel_needs_no_package_lists(suites: list[str]) -> None:
    folder = debian_kernels.stored_folder() / "linux-image-6.12.30+deb12-amd64"
    (folder / "modules").mkdir(parents=True)
    (folder / "version").write_text("6.12.30+deb12-amd64")
    (folder / "image").write_bytes(b"")
    (folder / "config").write_text("CONFIG_HZ=250\n")
    stored = debian_kernels.get("6.12")
    assert (stored.version, stored.config) == ("6.12.30+deb12-amd64", "CONFIG_HZ=250\n")
    assert not suites
    assert kernel.cached() is None  # it is not the default kernel


def test_a_stored_kernel_without_the_cards_driver_is_not_used(suites: list[str]) -> None:
    folder = debian_kernels.stored_folder() / "linux-image-6.12.30+deb12-amd64"
    folder.mkdir(parents=True)
    igb = Hardware(processors=2).needed
    assert debian_kernels.stored_folder(igb) != debian_kernels.stored_folder()
    debian_kernels.get("6.12", needed=igb)
    assert suites, "the package lists were asked"


def test_kernels_are_listed_once_in_the_order_of_their_releases(
    suites: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["emulate", "kernels"]) == 0
    printed = capsys.readouterr()
    rows = [line.split() for line in printed.out.splitlines() if "debian:" in line]
    assert [row[0].removeprefix("debian:") for row in rows] == [
        *("5.10.0-34-amd64", "5.10.0-35-amd64", "6.12.9+deb12-amd64", "6.12.30+deb12-amd64"),
        *("6.12.48+deb13-amd64", "6.12.48+deb13-rt-amd64", "7.2-amd64", "7.2.13+deb14-amd64"),
    ]
    assert rows[4][1] == "trixie"
    assert "the suite bookworm has no package lists here" in printed.err
    assert suites == debian_kernels.suites()


def test_the_modules_of_a_named_kernel_come_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["emulate", "--kernel", "debian:6.12", "--modules", "/lib"]
    assert app.run(command) == 2
    assert "--modules needs --kernel with the file of a kernel" in capsys.readouterr().err


CONFIG = """\
CONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14) 12.2.0"
# CONFIG_PREEMPT_RT is not set
CONFIG_PREEMPT_DYNAMIC=y
CONFIG_HZ=250
CONFIG_USB=m
"""


def test_the_options_of_a_configuration_are_those_that_change_the_cost_of_packets() -> None:
    assert kernel_options.of_config(CONFIG) == {
        "compiler": {"CC_VERSION_TEXT": "gcc-12 (Debian 12.2.0-14) 12.2.0"},
        "preemption": {"PREEMPT_DYNAMIC": "y"},
        "tick": {"HZ": "250"},
    }
    assert not kernel_options.of_config("")


def test_a_configuration_is_found_beside_the_kernel_or_in_it(tmp_path: Path) -> None:
    mark = b"\x7fELF Linux version 6.1.0-own (builder) "
    image = tmp_path / "vmlinux"
    image.write_bytes(mark + kernel.EMBEDDED + gzip.compress(CONFIG.encode()) + b"IKCFG_ED")
    assert kernel.from_file(image).config == CONFIG
    (tmp_path / "config-6.1.0-own").write_text("CONFIG_HZ=100\n")
    assert kernel.from_file(image).config == "CONFIG_HZ=100\n"
    image.write_bytes(mark)
    (tmp_path / "config-6.1.0-own").unlink()
    assert not kernel.from_file(image).config


def test_a_comparison_names_the_options_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    first, second = document(), document()
    first["kernel_options"] = {"tick": {"HZ": "250"}, "preemption": {"PREEMPT_RCU": "y"}}
    second["kernel_options"] = {"tick": {"HZ": "1000"}}
    pairs = emulation_comparison.compare(first, second).options
    assert [(pair.option, pair.first, pair.second) for pair in pairs] == [
        ("HZ", "250", "1000"),
        ("PREEMPT_RCU", "y", "n"),
    ]
    assert not emulation_comparison.compare(first, document()).options
    for name, saved in (("a", first), ("b", second)):
        (tmp_path / name).write_text(json.dumps(saved))
    command = ["emulate", "compare", str(tmp_path / "a"), str(tmp_path / "b")]
    assert app.run(command) == 0
    assert "options of the kernels that differ" in capsys.readouterr().out
    assert app.run([*command, "--format", "json"]) == 0
    options = json.loads(capsys.readouterr().out)["kernel_options"]
    assert options["HZ"] == {"group": "tick", "first": "250", "second": "1000"}


def observations(costs: Mapping[str, float]) -> tuple[list[Point], list[RunObservation]]:
    """Three runs of a point for each kernel, with this cost in TCP."""
    points = [
        Point(f"bulk-{name}", "bulk", {"kernel": name, "traffic": "bulk", "connections": 4})
        for name in costs
    ]
    runs = [
        RunObservation(
            point.name,
            seed,
            {
                "instructions_per_unit": tcp + 500 + seed,
                "layers": {"tcp": {"instructions_per_unit": tcp}},
                "functions": {"tcp tcp_ack": tcp} | ({"tcp tcp_new": 60.0} if tcp > 1000 else {}),
            },
            {},
        )
        for point, tcp in zip(points, costs.values(), strict=True)
        for seed in (1, 2, 3)
    ]
    return points, runs


def test_a_step_names_its_layers_and_functions() -> None:
    points, runs = observations({"5.10": 1000.0, "6.1": 1001.0, "6.12": 1101.0})
    study: Any = type("Study", (), {"points": tuple(points)})
    steps = kernel_steps.steps_of(study, Estimates(rows_from(points, runs)), runs)
    assert [(step.claim.quantity, step.claim.subject) for step in steps] == [
        ("5.10", "6.1"),
        ("6.1", "6.12"),
    ]
    last = steps[1]
    assert last.claim.value is not None
    assert last.claim.value.value == pytest.approx(1603 / 1503)
    assert last.layers == (("tcp", 1001.0, 1101.0),)
    assert last.functions[0] == ("tcp tcp_ack", 1001.0, 1101.0)
    (row,) = kernel_tables.function_table(steps).texts()
    assert row == ["bulk, connections 4", "6.1 to 6.12", "tcp tcp_ack +100"]
    first = kernel_tables.step_table(steps).texts()[0]
    assert first[:4] == ["bulk, connections 4", "5.10 to 6.1", "1,502", "1,503"]


def test_a_real_time_kernel_is_compared_with_the_general_one_of_its_release() -> None:
    points, runs = observations({"6.1": 1.0, "6.12": 2.0, "6.1-rt": 3.0, "7.2-rt": 4.0})
    study: Any = type("Study", (), {"points": tuple(points)})
    steps = kernel_steps.steps_of(study, Estimates(rows_from(points, runs)), runs)
    assert [(step.claim.quantity, step.claim.subject) for step in steps] == [
        ("6.1", "6.12"),
        ("6.1", "6.1-rt"),
    ]
    options = {"tick": {"HZ": "250"}}, {"tick": {"HZ": "1000"}}, {"tick": {"HZ": "250"}}
    known = {
        name: {"kernel": name, "kernel_options": own}
        for name, own in zip(("6.1", "6.12", "6.1-rt"), options, strict=True)
    }
    kernels = kernel_steps.kernels_of(study, {"testbed": {"kernels": known}})
    assert [bool(each.changed) for each in kernels] == [False, True, False]


def test_the_kernels_of_a_run_have_their_compilers_and_changed_options() -> None:
    points, _ = observations({"5.10": 1.0, "6.1": 1.0, "gone": 1.0})
    study: Any = type("Study", (), {"points": tuple(points)})
    known = {
        "5.10": {"kernel": "5.10.0-35", "kernel_options": {"tick": {"HZ": "250"}}},
        "6.1": {
            "kernel": "6.1.0-39",
            "kernel_options": {"compiler": {"CC_VERSION_TEXT": "gcc-12"}, "tick": {"HZ": "1000"}},
        },
    }
    kernels = list(kernel_steps.kernels_of(study, {"testbed": {"kernels": known}}))
    assert [(each.version, each.compiler) for each in kernels] == [
        ("5.10.0-35", ""),
        ("6.1.0-39", "gcc-12"),
    ]
    assert not kernels[0].changed
    assert [pair.option for pair in kernels[1].changed] == ["HZ", "CC_VERSION_TEXT"]


class SomeKernels(EmulatedRunner):
    """A runner with invented sessions, for which one kernel cannot be had."""

    def open_session(self, name: str, changes: Sequence[Any] = (), hardware: Any = None) -> Any:
        if name == "5.10":
            raise MachineLacks("no suite has 5.10")
        return SimpleNamespace(facts={"kernel": f"{name}.1"})


def test_a_study_leaves_out_the_kernels_that_cannot_be_had() -> None:
    points = library.find("kernel-history", "quick").points
    with SomeKernels().set_up(points) as setup:
        named = {point.name for point in points if point.factors["kernel"] == "5.10"}
        assert setup.left_out == dict.fromkeys(named, "no suite has 5.10")
        kernels: Any = setup.identity["kernels"]
        assert kernels["6.1"] == {"kernel": "6.1.1"}
    only = tuple(point for point in points if point.name in named)
    with pytest.raises(MachineLacks, match=r"no suite has 5\.10"), SomeKernels().set_up(only):
        pass


@pytest.mark.parametrize(
    ("server", "number"), [("bulk", 60), ("bulk-receive", 40), ("nginx", 10), ("forward", 40)]
)
def test_costs_are_those_of_a_unit_of_work(server: str, number: int) -> None:
    counts = window(60, 40, 3000)
    counts["counts"][0]["function"] = "tcp_ack"
    plan = PointPlan.model_validate({"server.kind": server, "emulator.by": "function"})
    passes = Passes({}, {plan.one_pass(): (plan.l2,)}, Event(), {})
    found: Any = result(plan, passes, counts)
    assert found["instructions_per_unit"] == pytest.approx(4000 / number)
    assert found["layers"]["tcp"]["instructions_per_unit"] == pytest.approx(3000 / number)
    assert found["functions"] == {"tcp tcp_ack": pytest.approx(3000 / number)}
    assert found["packets_per_unit"] == pytest.approx(100 / number)
    assert found["l2_misses_per_unit"] == pytest.approx(32 / number)


def test_the_cache_of_named_kernels_is_removed_with_all_others(suites: list[str]) -> None:
    (debian_kernels.stored_folder() / "linux-image-6.12").mkdir(parents=True)
    (debian_kernels.stored_folder() / "linux-image-6.12" / "image").write_bytes(b"123")
    assert folders.remove_stored() == 3
    assert not list(debian_kernels.stored_folder().iterdir())
