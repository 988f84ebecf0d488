"""Studies over ssh: their results, their leftovers, and the errors of machines."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from far import ALIAS, Far, far_machine
from patience import eventually
from perpacket.measure.hosts import record
from perpacket_lab.measure.host_files import PREFIX
from perpacket_lab.run.directory import RunDirectory
from quiet import skip_if_disturbed

pytestmark = pytest.mark.live

STUDY = """
schema = 1
name = "tiny"
kind = "measured"
title = "A web server by connections"
question = "Does it answer?"
quantities = ["requests_per_s"]
replications = 1

[scenario]
"load.kind" = "file"
"load.size_bytes" = 512
"run.warmup_s" = 0.0
"run.duration_s" = 0.1
"profile.events" = "any"

[factors]
"load.connections" = [1, 2]
"""

PERPACKET = """
import os, sys
from pathlib import Path
import patience
patience.be_patient(setattr)
from perpacket_lab.show import html as report
from perpacket.cli import main
from perpacket_lab.run.directory import RunDirectory
from perpacket.measure.hosts import record

records, number, *arguments = sys.argv[1:]
record.folder_path = lambda: Path(records)
keep = RunDirectory.record
def keep_and_end(self, *observation):
    keep(self, *observation)
    os.kill(os.getpid(), int(number))
if int(number):
    RunDirectory.record = keep_and_end
# Other tests draw the report.
report.write = lambda analysis, path: path
sys.argv = ["perpacket", *arguments]
main()
"""
"""`perpacket` that receives this signal, unless it is 0, after its first observation."""

REFUSED = """
import json, sys
from pathlib import Path
from perpacket_lab.measure import hosts as testbed
from perpacket.errors import PerpacketError
from perpacket.measure.hosts import record

folder, target, *options = sys.argv[1:]
record.folder_path = lambda: Path(folder)
try:
    with testbed.machines(target, [target], ssh_options=options) as bed:
        bed.server.agent()
except PerpacketError as error:
    print(json.dumps([type(error).__name__, str(error), error.hint]))
"""


@pytest.fixture
def records() -> Iterator[Path]:
    """A folder of records with a short path, because it contains sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def left_there(far: Far) -> list[str]:
    """The temporary files of studies on the machine."""
    return sorted(place.name for place in far.temporary.glob(f"{PREFIX}*"))


def test_a_study_over_ssh_resumes_after_a_kill_and_leaves_nothing_on_the_machines(
    tmp_path: Path, records: Path
) -> None:
    study, path = tmp_path / "tiny.toml", tmp_path / "run"
    study.write_text(STUDY)
    with far_machine(tmp_path) as far:
        # A living process of this machine has a lock on it, so it must stay.
        of_another = far.temporary / f"{PREFIX}{record.own_name()}-abc"
        of_another.mkdir()
        hosts = ["--testbed", "ssh", "--server-host", ALIAS, "--client-host", far.target]
        begin = ["study", "run", str(study), *hosts, "--output", str(path), "--quiet"]
        resume = ["study", "resume", str(path), "--quiet"]

        killed = far.python(PERPACKET, str(records), "9", *begin)
        if killed.returncode == 4:
            skip_if_disturbed(RunDirectory.open(path))
        assert killed.returncode == -9, killed.stderr
        holders = [name.removeprefix(PREFIX).rpartition("-")[0] for name in left_there(far)]
        assert len(holders) == 3
        holders.remove(record.own_name())
        assert eventually(lambda: not any(map(record.is_alive, holders)))
        assert [place.suffix for place in sorted(records.iterdir())] == ["", ".json"]

        done = far.python(PERPACKET, str(records), "0", *resume)
        directory = RunDirectory.open(path)
        skip_if_disturbed(directory)
        assert done.returncode == 0, done.stderr
        assert len(directory.read_observations()) == 2
        assert directory.environment()["testbed"]["network"] == "machines"  # type: ignore[index]
        assert left_there(far) == [of_another.name]
        assert list(records.iterdir()) == []
        assert [place.name for place in (far.folder / "home").iterdir()] == [".cache"]


def test_the_error_of_a_machine_names_the_machine_and_the_next_step(
    tmp_path: Path, records: Path
) -> None:
    with far_machine(tmp_path, ["PermitUserEnvironment=yes"]) as far:
        (tmp_path / "wrong").write_text(
            (tmp_path / "known").read_text().replace(key(tmp_path, "host"), key(tmp_path, "key"))
        )
        public = (tmp_path / "key.pub").read_text()

        def refused(target: str, *options: str) -> list[str]:
            commands = far.python(REFUSED, str(records), target, *options)
            assert commands.returncode == 0, commands.stderr
            answer: list[str] = json.loads(commands.stdout)
            assert answer[0] == "MachineLacks"
            assert target in answer[1]
            assert list(records.iterdir()) == []
            return answer[1:]

        text, hint = refused(far.target, "-o", f"UserKnownHostsFile={tmp_path / 'wrong'}")
        assert text.endswith("Host key verification failed.")
        destination, _, port = far.target.rpartition(":")
        assert f"`ssh -p {port} {destination} true` must work" in hint

        text, _ = refused(f"{destination}:{int(port) + 1}")
        assert "refused" in text

        (tmp_path / "authorized").write_text(f'command="echo no shell for you" {public}')
        text, _ = refused(far.target)
        assert "login shell" in text
        assert "no shell for you" in text

        (tmp_path / "authorized").write_text(f'environment="XDG_CACHE_HOME=/dev/null" {public}')
        text, hint = refused(far.target)
        assert "cannot be copied to /dev/null/perpacket/agent-" in text
        assert "XDG_CACHE_HOME" in hint


def key(folder: Path, name: str) -> str:
    """The public key of that name, without its comment."""
    return (folder / f"{name}.pub").read_text().split()[1]
