"""`profile --pprof` as `go tool pprof` and protobuf in Python read it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pprof_schema
from perpacket.errors import MachineLacks
from perpacket.measure import agent
from probes import need
from requirements import skip

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """A file for pprof, and the report of the same window."""
    try:
        own = agent.find()
    except MachineLacks as error:
        skip("agent", error)
    need("perf")
    file = tmp_path_factory.mktemp("pprof") / "profile.pb.gz"
    # The load uses a processor for one to two seconds, so samples of it do not depend on chance.
    load = "end=$((SECONDS + 2)); while ((SECONDS < end)); do : > /dev/tcp/127.0.0.1/1; done; true"
    options = ("--pprof", str(file), "--format", "json", "--quiet")
    done = subprocess.run(
        [own, "profile", *options, "--", "bash", "-c", f"exec 2> /dev/null; {load}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return file, json.loads(done.stdout)


def pprof(file: Path, *options: str) -> str:
    """The output of `go tool pprof` for a file."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        skip("peers", "go is not installed")
    done = subprocess.run(
        [go, "tool", "pprof", *options, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pprof_reads_both_values_of_every_sample(
    profile: tuple[Path, dict[str, object]],
) -> None:
    file, report = profile
    text = pprof(file, "-raw")
    assert "cpu/nanoseconds[dflt] cost/nanoseconds per packet" in text
    samples = re.findall(r"^ +(\d+) +(\d+): [\d ]+$", text, re.MULTILINE)
    total, cost = (sum(int(pair[index]) for pair in samples) for index in (0, 1))
    packets = report["packets"]
    assert isinstance(packets, dict)
    assert total == sum(sample.value[0] for sample in pprof_schema.read(file).sample) > 0
    number = packets["sent"] + packets["received"]
    assert number > 0
    assert cost == pytest.approx(total / number, abs=1)


def test_pprof_groups_by_the_layers_of_the_report(
    profile: tuple[Path, dict[str, object]],
) -> None:
    file, report = profile
    text = pprof(file, "-tags", "-unit=ns").partition("layer: ")[2]
    found = {
        name: float(seconds)
        for seconds, name in re.findall(r"([\d.]+)ns \([^)]*\): (\w+)$", text, re.MULTILINE)
    }
    layers = report["layers"]
    assert isinstance(layers, dict)
    for name in ("user", "tcp", "syscall", "scheduler"):
        assert found.get(name, 0.0) == pytest.approx(1e9 * layers[name]["cpu_s"], abs=2), name


def test_pprof_groups_by_control_group(profile: tuple[Path, dict[str, object]]) -> None:
    file, report = profile
    text = pprof(file, "-tags", "-unit=ns").partition("cgroup: ")[2].partition("\n\n")[0]
    found = re.findall(r"([\d.]+)ns \([^)]*\): (\S+)$", text, re.MULTILINE)
    whole = report["total"]
    assert isinstance(whole, dict)
    total = sum(float(time_ns) for time_ns, _ in found)
    assert total == pytest.approx(1e9 * whole["cpu_s"], rel=1e-6)
    assert {name for _, name in found} - {"shared"}


def test_protobuf_reads_the_file_by_the_published_schema(
    profile: tuple[Path, dict[str, object]],
) -> None:
    file, report = profile
    read = pprof_schema.read(file)
    text = read.string_table
    assert text[0] == ""
    values = [(text[one.type], text[one.unit]) for one in read.sample_type]
    assert values == [("cpu", "nanoseconds"), ("cost", "nanoseconds per packet")]
    whole = report["total"]
    assert isinstance(whole, dict)
    # Idle time that has no samples is in the report alone.
    busy = sum(
        sample.value[0]
        for sample in read.sample
        if "idle" not in {text[label.str] for label in sample.label}
    )
    assert busy == pytest.approx(1e9 * whole["cpu_s"], rel=1e-6)

    locations = {one.id: one for one in read.location}
    functions = {one.id: text[one.name] for one in read.function}
    mappings = {one.id for one in read.mapping}
    names: set[str] = set()
    for sample in read.sample:
        labels = {text[one.key]: text[one.str] for one in sample.label}
        assert {"layer", "kind"} <= set(labels), labels
        for number in sample.location_id:
            location = locations[number]
            assert location.mapping_id in mappings or not location.mapping_id
            names.update(functions[line.function_id] for line in location.line)
    assert names
    assert all(names), "every function has a name"
    window_s = report["window_s"]
    assert isinstance(window_s, float)
    assert read.duration_nanos == pytest.approx(1e9 * window_s, rel=0.01)
    # No field is outside the schema.
    size = read.ByteSize()
    read.DiscardUnknownFields()
    assert read.ByteSize() == size
