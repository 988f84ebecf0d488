"""Every key that a verb prints as JSON is in a document, with its meaning."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from perpacket import simulate
from perpacket.analysis import ratios
from perpacket_lab.analysis import run_comparison
from perpacket_lab.analysis.analysis import Analysis, analyze
from perpacket_lab.emulate.replay import replay
from perpacket_lab.emulate.settings import Memory
from perpacket_lab.run import start
from perpacket_lab.run.directory import RunDirectory
from perpacket_lab.show import json as json_documents
from perpacket_lab.study import library, load
from perpacket_lab.study.quantities import COLUMNS, QUANTITIES, column, flatten
from perpacket_lab.study.study import Study
from probes import need

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import commands, documents, quantities  # noqa: E402

INTERVAL = {"value", "low", "high", "n", "confidence"}
KEYS = json_documents.keys()
SHORT = (("run.warmup_packets", "500"), ("run.packets", "3000"))


def paths(content: object, above: str = "") -> Iterator[str]:
    """The keys of a document as paths; a list adds `[]`."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            path = f"{above}.{key}" if above else str(key)
            yield from [path] if not isinstance(value, list) else []
            yield from paths(value, path)
    elif isinstance(content, list):
        yield f"{above}[]"
        for item in content:
            yield from paths(item, f"{above}[]")


def undocumented(content: object, prefix: str = "") -> set[str]:
    """The paths of a study's document that its keys do not explain."""
    found = set()
    for path in paths(content):
        key = prefix + path
        parent, _, last = key.rpartition(".")
        explained = key in KEYS or key.removeprefix(prefix) in ("schema",)
        # The keys of an interval, and the keys that the meaning of their parent lists.
        inside = parent in KEYS and (
            last in INTERVAL or parent.endswith(("factors", "overrides", "where"))
            or f"`{last}`" in KEYS[parent]
        )  # fmt: skip
        if not explained and not inside:
            found.add(key)
    return found


@pytest.mark.parametrize("configuration", ["W-1024-P-N-FCFS-400", "bulk"])
def test_every_number_of_a_simulation_is_a_quantity(configuration: str) -> None:

    result = simulate(configuration, overrides=SHORT)
    others = {"schema", "configuration", "seed", "conserved"}
    page = (ROOT / "docs/reference/documents.md").read_text()
    assert all(f"`{name}`" in page for name in others)
    unknown = {
        key
        for key, _ in flatten(result)
        if key not in others and not column(key).counts and not in_null_group(key)
    }
    assert not unknown


def in_null_group(key: str) -> bool:
    """Whether a key is in a group that has no numbers for a bulk sender."""
    return any(name.startswith(f"{key}.") for name in COLUMNS)


def test_every_quantity_is_in_the_reference_with_unit_and_meaning() -> None:
    tables = quantities.columns(ROOT) + quantities.named(ROOT)
    for entry in (*COLUMNS.values(), *QUANTITIES.values()):
        assert entry.counts, entry.name
        assert entry.measured, entry.name
        assert entry.least < entry.most
        if not entry.name.endswith(" increase"):
            assert f"| `{entry.name}` |" in tables


def test_every_key_of_a_run_of_a_study_is_explained(analysis: Analysis, study: Study) -> None:
    assert not undocumented(json_documents.analysis(analysis, Path("report.html")))
    points = [json_documents.point(point) for point in study.points]
    shown = json_documents.study_summary(study) | {"points": points}
    assert not undocumented(shown, "study.")


def test_every_key_of_a_users_study_is_explained(fake_core: None, tmp_path: Path) -> None:
    text = library.example("simulated").replace('design = "full"', 'design = "two-level"')
    own = load.build(text, Path("my.toml"))
    directory = start.run(own, tmp_path / "run", seeds=(1, 2))
    found = analyze(directory.study(), directory)
    assert not undocumented(json_documents.analysis(found, Path("report.html")))


def test_every_key_of_a_comparison_of_runs_is_explained(run_directory: RunDirectory) -> None:
    rules = [ratios.read_rule("requests_per_s < 0.97")]
    found = run_comparison.compare(run_directory, run_directory, rules=rules)
    assert not undocumented(json_documents.run_comparison(found), "compare.")


def test_every_key_of_a_profile_is_in_the_reference() -> None:
    need("perf")
    command = [sys.executable, "-m", "perpacket.cli", "profile", "--duration", "0.2", "--quiet"]
    done = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    table = documents.table(ROOT, "crates/instruments/profiler/src/report.rs", "Report")
    known = set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))
    words = {part for key in known for part in re.split(r"\.|\[\]", key)}
    content = json.loads(done.stdout)
    assert set(content) <= words
    layers = content.get("layers", {})
    assert {key for layer in layers.values() for key in layer} <= words


RECORDING = ROOT / "lab" / "crates" / "emulate" / "tests" / "data" / "bulk.rec"


@pytest.fixture(scope="module")
def emulation() -> dict[str, Any]:
    """The document of a replay."""
    return replay(RECORDING, Memory())


def test_every_key_of_an_emulation_is_in_the_reference(emulation: dict[str, Any]) -> None:
    page = (ROOT / "docs/reference/documents.md").read_text()
    section = page.partition("## emulate")[2].partition("\n## ")[0]
    known = {part for key in re.findall(r"`([^`]+)`", section) for part in parts_of(key)}
    names = {name for part in ("layers", "kinds", "directions") for name in emulation[part]}
    names |= {name for part in ("regions", "settings") for name in emulation[part]}
    names |= {*emulation["caches"]["l2"], "schema"}
    names |= {
        name
        for variant in emulation["by_variant"]
        for name in variant["instructions"]["layer_kinds"]
    }
    printed = {part for path in paths(emulation) for part in parts_of(path)}
    assert printed - names <= known


@pytest.mark.parametrize(
    ("structure", "part"), [("Report", ""), ("Packets", "packets"), ("Cost", "total")]
)
def test_keys_that_a_profile_also_has_are_of_its_types(
    emulation: dict[str, Any], structure: str, part: str
) -> None:
    """Compare with the structure that a profile serializes, because few machines have counters."""
    own = emulation[part] if part else emulation
    structures = documents.structures_of(ROOT, "crates/instruments/profiler/src/report.rs")
    types = {field.key: field.kind for field in documents.fields(structures[structure])}
    common = own.keys() & types.keys()
    assert (
        common
        >= {
            "Report": {"backend", "packets", "total", "layers", "kinds", "regions", "layer_kinds"},
            "Packets": {"sent", "received"},
            "Cost": {"share", "instructions_per_packet", "l1d_misses_per_packet"},
        }[structure]
    )
    for key in common:
        suffix, _, kind = documents.unwrapped(types[key])
        expected: type | tuple[type, ...] = dict
        if suffix == "[]":
            expected = list
        elif re.fullmatch(r"[fu](32|64)|usize", kind) and not suffix:
            expected = (float, int, type(None))
        elif kind in ("String", "Backend"):
            expected = str
        assert isinstance(own[key], expected), key


def test_every_key_of_advice_is_in_the_reference() -> None:
    from perpacket.advise import catalogue
    from perpacket.advise.advice import Advice, NotApplicable, Report
    from perpacket.advise.bounds import Bound
    from perpacket.analysis.statistics import Interval
    from perpacket.show import advice_tables as shown

    share = Interval(0.1, 0.05, 0.2, 100, 0.95)
    tso = catalogue.load()["tso"]
    found = Report(
        (Advice(tso, "on", "eth0", "evidence", Bound(share, share), "", "command"),),
        (NotApplicable(tso, "eth0", "reason"),),
        ("eth0",), "nginx", 5.0, 100, ("limit",),
    )  # fmt: skip
    page = (ROOT / "docs/reference/documents.md").read_text()
    section = page.partition("## advise")[2].partition("\n## ")[0]
    known = {f"`{key}`" for key in re.findall(r"`([^`]+)`", section)} | {"`schema`"}
    printed = {f"`{path}`" for path in paths(shown.document(found))}
    inside = {f"`{key}.{name}`" for key in ("advice[].bound.share", "advice[].bound.gain")
              for name in INTERVAL}  # fmt: skip
    tables = {"`advice[].bound`", "`advice[].source`"}
    assert printed - inside - tables <= known


def test_every_key_of_a_trial_is_in_the_reference() -> None:
    from perpacket.advise.effect import Window, effects
    from perpacket.advise.journal import Restoration, Undone
    from perpacket.advise.slope import Slope
    from perpacket.advise.trial import Outcome, Trial
    from perpacket.analysis.statistics import Interval
    from perpacket.show import trial_tables as shown

    windows = [
        Window(block, side, 1.0, 0.5, {"tcp": 0.2}, 3e4, 1e8, 1e4, 1.0, 1.0, {"p50": 9, "p99": 20})
        for block in range(4)
        for side in (0, 1, 1, 0)
    ]
    each = Interval(0.1, 0.05, 0.2, 100, 0.95)
    found = Outcome(
        [Trial("tso=off", effects(windows), tuple(windows), ("note",), is_decided=True)],
        combinations=tuple(windows),
        changes=("tso=off",),
        slope=Slope("ip", "requests/s", "rules", (100,), each, 200.0, each, each),
        notes=("note",),
        undone=[Undone("tso", Restoration.RESTORED)],
    )
    page = (ROOT / "docs/reference/documents.md").read_text()
    section = page.partition("## trial")[2].partition("\n## ")[0]
    known = {part for key in re.findall(r"`([^`]+)`", section) for part in parts_of(key)}
    printed = {part for path in paths(shown.document(found)) for part in parts_of(path)}
    assert printed - INTERVAL - {"schema", "tcp"} <= known


def parts_of(path: str) -> list[str]:
    """The names in a path."""
    return [part for part in re.split(r"[.]|\[\]", path) if part]


def section(name: str) -> str:
    """The section of the reference for a verb."""
    page = (ROOT / "docs/reference/documents.md").read_text()
    return page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def verbs_with_json() -> Iterator[str]:
    """Every verb of the front and of the agent that has `--format`."""
    import typer

    from perpacket.cli.agent_verbs import VERBS
    from perpacket.cli.app import app

    def of_front(name: str, command: Any) -> Iterator[str]:
        if any("--format" in one.opts for one in command.params):
            yield name
        for part, inner in getattr(command, "commands", {}).items():
            yield from of_front(f"{name} {part}", inner)

    def of_agent(words: tuple[str, ...]) -> Iterator[str]:
        for text in commands.agent_verb(words):
            if "--format" in text:
                yield text.partition("\n")[0].removeprefix("## perpacket ")

    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        yield from of_agent((name,)) if name in VERBS else of_front(name, command)


SAME_DOCUMENT = {"route self-test": "route throughput"}
"""Verbs that print the document of another one."""

NO_DOCUMENT = {"export"}
"""Verbs that accept `--format` as the others of the agent do, and print no document."""


def test_every_verb_with_json_has_a_section() -> None:
    page = (ROOT / "docs/reference/documents.md").read_text()
    titles = set(re.findall(r"^## (.+)$", page, re.MULTILINE))
    lacking = [
        verb
        for verb in verbs_with_json()
        if not {verb, verb.partition(" ")[0], SAME_DOCUMENT.get(verb, verb)} & titles
        and verb not in NO_DOCUMENT
    ]
    assert not lacking


@pytest.mark.parametrize(
    "command",
    [
        "model laws --network-share 0.34",
        "model laws --network-share 0.34 --sweep",
        "model part --share 0.2",
        "model handoff --host 42us --saved 15us --nic-host 2us --nic-extra 30us",
        "model bounds --size 1000",
        "model cache --access 8 --line 64",
        "trace synthesize new.log --workload W --requests 100",
        "trace info old.log --curve",
        "trace convert old.log new.log.zst --to combined",
        "emulate replay RECORDING",
    ],
)
def test_every_key_of_a_model_trace_or_replay_is_in_its_section(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from perpacket.cli.app import run

    monkeypatch.chdir(tmp_path)
    assert run(["trace", "synthesize", "old.log", "--workload", "W", "--requests", "100"]) == 0
    capsys.readouterr()
    recording = ROOT / "lab/crates/emulate/tests/data/bulk.rec"
    words = [str(recording) if word == "RECORDING" else word for word in command.split()]
    assert run([*words, "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    found = section(" ".join(words[:2])) or section(words[0])
    known = {part for key in re.findall(r"`([^`]+)`", found) for part in parts_of(key)}
    # Names of layers, caches and the like, and the keys of a whole that is explained as one.
    for group in ("layers", "kinds", "regions", "directions", "layer_kinds", "settings", "check"):
        content.pop(group, None)
    assert set(content) - {"schema"} <= known
