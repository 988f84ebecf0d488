"""Traces through Python: the facts of the real logs, and errors with a next step.

`crates/base/workload` tests the counts; these tests are about the interface to Python.
"""

from __future__ import annotations

import gzip
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perpacket.errors import TraceError
from perpacket_lab import traces


@pytest.fixture
def trace_folder(shared: Path) -> Path:
    """The folder of real logs."""
    return shared / "traces"


def test_the_nasa_log_of_1_august_1995_has_the_published_facts(trace_folder: Path) -> None:
    found = traces.info(trace_folder / "nasa-1995-08-01.clf.gz")
    assert found["format"] == "common"
    assert (found["requests"], found["rejected"], found["rejects"]) == (33_996, 0, [])
    assert (found["clients"], found["objects"]) == (2_582, 2_220)
    assert found["bytes"] == 529_321_719
    assert found["peak_per_s"] == 17
    assert (found["first_time"], found["last_time"]) == (
        "1995-08-01T04:00:01Z",
        "1995-08-01T18:52:01Z",
    )
    assert round(found["status"]["304"] / found["requests"], 3) == 0.077


def test_day_6_of_the_world_cup_has_the_published_shape_of_sessions(trace_folder: Path) -> None:
    found = traces.info(trace_folder / "wc98-day6-sample.bin.gz")
    assert found["format"] == "world-cup"
    assert found["requests"] == 199_993
    assert round(found["requests_per_session"]["mean"], 2) == 2.33
    assert found["session_packets"] == {
        "bottom_half_share": pytest.approx(0.087, abs=5e-4),
        "top_tenth_share": pytest.approx(0.627, abs=5e-4),
    }


def test_the_curve_of_day_6_passes_through_the_published_shares(trace_folder: Path) -> None:
    file = trace_folder / "wc98-day6-sample.bin.gz"
    curve = traces.info(file, curve=True)["session_curve"]
    assert [point["sessions"] for point in curve] == pytest.approx(
        [one / 100 for one in range(101)]
    )
    assert curve[50]["packets"] == pytest.approx(0.087, abs=5e-4)
    assert 1 - curve[90]["packets"] == pytest.approx(0.627, abs=5e-4)
    for share in ("packets", "bytes"):
        values = [point[share] for point in curve]
        assert values[0] == 0
        assert values[-1] == pytest.approx(1)
        assert all(low <= high for low, high in itertools.pairwise(values))


def test_trace_info_prints_and_draws_the_curve(tmp_path: Path) -> None:
    log, chart = tmp_path / "w.log", tmp_path / "curve.svg"
    traces.synthesize(log, requests=500)
    command = ("trace", "info", str(log), "--curve", "--chart", str(chart))
    done = subprocess.run(
        [sys.executable, "-m", "perpacket.cli", *command],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"100\.0% +100\.0% +100\.0%", done.stdout)
    half = traces.info(log, curve=True)["session_curve"][50]["packets"]
    assert f"{half:.1%} of the packets" in chart.read_text()


def test_a_longer_window_joins_sessions(trace_folder: Path) -> None:
    path = trace_folder / "wc98-day5.bin"
    sessions = [traces.info(path, window_s=window_s)["sessions"] for window_s in (0, 15, 1800)]
    assert sessions == sorted(sessions, reverse=True)
    assert sessions[-1] == traces.info(path)["clients"]


def test_torn_lines_are_listed_with_their_numbers(trace_folder: Path) -> None:
    path = trace_folder / "nasa-1995-08-torn.clf.gz"
    found = traces.info(path)
    lines = gzip.decompress(path.read_bytes()).removesuffix(b"\n").split(b"\n")
    assert found["requests"] + found["rejected"] == len(lines)
    whole = re.compile(rb'\S+ .+ \[.{26}\] ".*" \d{3} (\d+|-)')
    torn = [number for number, line in enumerate(lines, start=1) if not whole.fullmatch(line)]
    assert [reject["line"] for reject in found["rejects"]] == torn


def test_the_keys_are_those_that_are_documented(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    traces.synthesize(path, requests=100)
    assert list(traces.info(path)) == [
        "format",
        "requests",
        "rejected",
        "rejects",
        "clients",
        "objects",
        "bytes",
        "first_time",
        "last_time",
        "peak_per_s",
        "status",
        "sessions",
        "requests_per_session",
        "session_packets",
        "check",
    ]


@pytest.mark.parametrize("workload", ["W", "I", "S", "D"])
def test_synthesized_sessions_survive_every_conversion(
    tmp_path: Path, workload: traces.Workload
) -> None:
    records = tmp_path / "a.bin.gz"
    log = tmp_path / "b.log.zst"
    mappings = tmp_path / "paths"
    written = traces.synthesize(records, workload=workload, requests=2_000, format="world-cup")
    converted = traces.convert(records, log, to="combined")
    assert (converted["from"], converted["to"]) == ("world-cup", "combined")
    traces.convert(log, tmp_path / "c.bin", to="world-cup", mappings=mappings)
    traces.convert(tmp_path / "c.bin", tmp_path / "d.log", to="common", object_paths=mappings)
    for path in (records, log, tmp_path / "c.bin", tmp_path / "d.log"):
        found = traces.info(path)
        for key in ("requests", "sessions", "bytes"):
            assert found[key] == written[key], path.name


def test_a_seed_produces_the_same_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.gz", "b.gz", "c.gz")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        traces.synthesize(path, requests=500, seed=seed)
    first, again, other = (path.read_bytes() for path in paths)
    assert first == again != other


def test_an_empty_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "empty.log"
    path.touch()
    with pytest.raises(TraceError, match=r"empty\.log: byte 0: the trace is empty"):
        traces.info(path)


def test_a_cut_record_is_named_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    traces.synthesize(path, requests=100, format="world-cup")
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    expected = rf"cut\.bin: byte {len(whole) - 20}: the last record has 15 of 20 bytes"
    with pytest.raises(TraceError, match=expected):
        traces.info(path)


def test_binary_records_are_not_a_log(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    traces.synthesize(path, requests=100, format="world-cup")
    with pytest.raises(TraceError, match=r"a\.bin: byte \d+: binary data"):
        traces.info(path, format="common")


def test_a_missing_file_is_an_os_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        traces.info(tmp_path / "nowhere.log")
    assert raised.value.filename == str(tmp_path / "nowhere.log")


def test_a_conversion_that_fails_leaves_no_file(tmp_path: Path) -> None:
    source = tmp_path / "source.log"
    source.write_bytes(b"nothing of a log\n")
    with pytest.raises(TraceError, match=r"source\.log: byte 0"):
        traces.convert(source, tmp_path / "out.log", to="common")
    assert sorted(tmp_path.iterdir()) == [source]


def test_a_trace_can_be_converted_onto_itself(tmp_path: Path) -> None:
    path = tmp_path / "w.log"
    written = traces.synthesize(path, requests=1_000)
    traces.convert(path, path, to="world-cup")
    found = traces.info(path)
    assert (found["format"], found["requests"]) == ("world-cup", written["requests"])


def test_a_parameter_out_of_range_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="sessions_per_s is 0"):
        traces.synthesize(tmp_path / "a", sessions_per_s=0)
    with pytest.raises(TraceError, match="connections is 0"):
        traces.synthesize(tmp_path / "a", workload="S", connections=0)
    traces.synthesize(tmp_path / "b", requests=10)
    with pytest.raises(TraceError, match="window is -1 s"):
        traces.info(tmp_path / "b", window_s=-1)


JSON_LOG = (
    '{"when": 1714558506.25, "who": "a", "req": "/x", "code": 200}\n'
    '{"when": 1714558507, "who": "b", "req": "/y", "code": "404"}\n'
    '{"when": 1714558508, "who": "b", "code": 200}\n'
)


def test_a_json_log_is_read_by_a_mapping_of_its_fields(tmp_path: Path) -> None:
    log = tmp_path / "access.json"
    log.write_text(JSON_LOG)
    with pytest.raises(TraceError, match="no JSON line with the fields of the mapping"):
        traces.info(log)
    fields = "time=when,client=who,uri=req,status=code"
    summary = traces.info(log, log_fields=fields)
    assert (summary["format"], summary["requests"], summary["clients"]) == ("json", 2, 2)
    reason = "no field of the mapping has the uri or the request"
    assert summary["rejects"] == [{"line": 3, "reason": reason}]
    traces.convert(log, tmp_path / "access.log", to="common", log_fields=fields)
    first = (tmp_path / "access.log").read_text().splitlines()[0]
    assert first == 'a - - [01/May/2024:10:15:06 +0000] "GET /x HTTP/1.1" 200 -'
    with pytest.raises(TraceError, match="expected PART=FIELD, with a part of time, client"):
        traces.info(log, log_fields="path=req")
    with pytest.raises(TraceError, match="only the format json has a mapping"):
        traces.info(log, format="common", log_fields=fields)
