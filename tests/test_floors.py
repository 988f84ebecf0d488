"""The operator's floor without the lab: what works, and how the rest names the lab."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WITHOUT_LAB = """
import sys
for name in ("perpacket_lab", "polars", "altair", "numpy", "vl_convert", "jinja2", "tomli_w"):
    sys.modules[name] = None
"""
"""Python then finds no such module."""


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code where neither the lab nor its packages can be imported."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LAB + code], capture_output=True, text=True, check=False
    )


def verb(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb without the lab."""
    return run(f"from perpacket.cli.app import run; sys.exit(run({list(words)!r}))")


@pytest.mark.parametrize(
    "words",
    [
        ["demo"],
        ["simulate", "W-1024-P-N-FCFS-400", "--seed", "1"],
        ["emulate", "--help"],
        ["model", "laws", "--gamma", "1"],
        ["study", "run", "osdi06"],
        ["trace", "info", "log"],
        ["application", "list"],
        ["bench", "memory"],
        ["serve", "media", "--root", "."],
    ],
)
def test_a_verb_of_the_lab_names_the_command_that_installs_it(words: list[str]) -> None:
    done = verb(*words)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"perpacket {words[0]}" in done.stderr
    assert "hint: `pip install 'perpacket[lab]'`" in done.stderr


@pytest.mark.parametrize("name", ["simulate", "run_study", "open_run"])
def test_a_function_of_the_lab_names_the_command_that_installs_it(name: str) -> None:
    done = run(
        f"import perpacket\ntry: perpacket.{name}\n"
        "except perpacket.errors.MachineLacks as error: print(error.hint)"
    )
    assert done.stdout == "`pip install 'perpacket[lab]'`\n", done.stderr


def test_help_without_the_lab_lists_every_verb() -> None:
    done = verb("--help")
    assert done.returncode == 0
    for name in ("profile", "advise", "trial", "study", "simulate"):
        assert f" {name} " in done.stdout


def test_doctor_reports_that_the_lab_is_missing() -> None:
    done = verb("doctor", "--format", "json")
    found = {item["name"]: item for item in json.loads(done.stdout)["capabilities"]}
    assert not found["lab"]["available"]
    assert "qemu" not in found
