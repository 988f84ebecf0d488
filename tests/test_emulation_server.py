"""Servers of `perpacket emulate` with a root, an environment, or an interpreter."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from a_server import HTTP, compiled
from perpacket.errors import ConfigurationError, MachineLacks, RunFailed
from perpacket_lab.emulate import files, server_root
from perpacket_lab.emulate.archive import Archive
from perpacket_lab.emulate.session import Guest, Session
from perpacket_lab.emulate.settings import Scenario, Settings

SMALL = Settings(Scenario("server"), frames=200, warmup_frames=200, variants=1)

NEEDS_VARIABLES = HTTP.replace(
    b"/* daemon */",
    b'if (strcmp(getenv("OF_IMAGE"), "it\'s") || strcmp(getenv("GIVEN"), "a b")) return 3;',
)

USED = """
import argparse, encodings.idna, http.server, sys
for module in list(sys.modules.values()):
    print(getattr(module, "__file__", None) or "")
"""
"""Prints the files that Python's web server reads."""


def tar(members: Mapping[str, bytes | str]) -> bytes:
    """A tar of files, with a program mode, and of symbolic links, which are texts."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def oci(layers: list[bytes], environment: list[str]) -> bytes:
    """The tar of an OCI image."""
    blobs = {}

    def add(content: bytes) -> dict[str, str]:
        digest = sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}"}

    config = add(json.dumps({"config": {"Env": environment}}).encode())
    manifest = add(json.dumps({"config": config, "layers": [add(own) for own in layers]}).encode())
    return tar({**blobs, "index.json": json.dumps({"manifests": [manifest]}).encode()})


def saved(layers: list[bytes], environment: list[str]) -> bytes:
    """The tar of `docker save`."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "Layers": names}]
    return tar(
        {
            **dict(zip(names, layers, strict=True)),
            "config.json": json.dumps({"config": {"Env": environment}}).encode(),
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


@pytest.mark.parametrize("image", [oci, saved])
def test_a_layer_of_an_image_replaces_and_removes_files_of_earlier_ones(
    image: Any, tmp_path: Path
) -> None:
    layers = [
        tar({"usr/a": b"1", "usr/b": b"1", "opt/c": b"1", "opt/d": b"1", "bin": "usr"}),
        tar({"./usr/a": b"2", "usr/.wh.b": b"", "opt/.wh..wh..opq": b"", "opt/e": b"2"}),
    ]
    path = tmp_path / "image.tar"
    path.write_bytes(image(layers, ["PATH=/bin", "A=b"]))
    root = Archive()
    assert server_root.add_root(root, path)[-2:] == ["PATH=/bin", "A=b"]
    assert root.content("server/usr/a") == b"2"
    there = [
        name
        for name in "abcde"
        if root.resolve("server", f"/{'opt' if name > 'b' else 'bin'}/{name}")
    ]
    assert there == ["a", "e"]


def test_an_unpacked_root_and_its_tar_are_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    (folder / "usr").mkdir(parents=True)
    (folder / "usr" / "a").write_bytes(b"1")
    (folder / "usr" / "a").chmod(0o755)
    (folder / "bin").symlink_to("usr")
    path = tmp_path / "root.tar"
    path.write_bytes(tar({"usr/a": b"1", "bin": "usr"}))
    archives = [Archive(), Archive()]
    for archive, root in zip(archives, (folder, path), strict=True):
        server_root.add_root(archive, root)
    assert archives[0] == archives[1]


def test_what_a_root_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "absent-tar").write_bytes(b"no tar")
    for path in (tmp_path / "absent-tar", tmp_path / "absent"):
        with pytest.raises(ConfigurationError, match=f"--server-root {path}: expected"):
            server_root.add_root(Archive(), path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "script").write_text("#!/usr/bin/python9 -s\n")
    (tmp_path / "bin" / "server").write_bytes(compiled(HTTP, tmp_path).read_bytes())
    with pytest.raises(ConfigurationError, match="absent: the root of --server-root has no"):
        files.server_archive(["absent"], (), tmp_path)
    with pytest.raises(ConfigurationError, match="/bin/script: it needs /usr/bin/python9, which"):
        files.server_archive(["script"], (), tmp_path)
    with pytest.raises(ConfigurationError, match=r"/bin/server: it needs /lib.*/ld-.*, which"):
        files.server_archive(["/bin/server"], (), tmp_path)


def test_a_script_whose_interpreter_is_absent_is_an_error_that_names_it(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text("#!/usr/bin/python9\n")
    script.chmod(0o755)
    with pytest.raises(MachineLacks, match="server needs /usr/bin/python9, which this machine"):
        files.server_archive([str(script)], ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server_env": ["A"]}, "--server-env A: expected NAME=VALUE"),
        ({"server_env": ["1=b"]}, "--server-env 1=b: expected NAME=VALUE"),
        ({"server_env": ["A=b"], "server": ()}, "--server-env needs --server"),
        ({"server_root": Path("/"), "server": ()}, "--server-root needs --server"),
    ],
)
def test_options_of_another_server_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Guest(**{"server": ["program"], **options})


def test_a_server_of_an_image_has_the_environment_of_the_image_and_of_the_options(
    session: Session, tmp_path: Path
) -> None:
    program = compiled(NEEDS_VARIABLES, tmp_path, "-static")
    layer = tar({"srv/server": program.read_bytes(), "etc/passwd": b""})
    path = tmp_path / "image.tar"
    path.write_bytes(oci([layer], ["PATH=/usr/bin:/srv", "OF_IMAGE=it's", "GIVEN=other"]))
    own = files.server_archive(["server"], (), path, ["GIVEN=a b"])
    document: Any = replace(session, files=own).emulate(
        replace(SMALL, scenario=Scenario("server {port}", 1))
    )
    assert document["responses"]["statuses"].keys() == {"200"}


@pytest.mark.full
def test_pythons_web_server_runs_with_its_modules(session: Session) -> None:
    python = sys._base_executable  # type: ignore[attr-defined]  # its type lacks it
    done = subprocess.run([python, "-c", USED], capture_output=True, text=True, check=True)
    modules = [Path(line) for line in done.stdout.split("\n") if line.startswith("/")]
    words = [python, "-m", "http.server", "{port}", "--directory", "{root}"]
    own = files.server_archive(words, modules, None, [f"PYTHONHOME={sys.base_prefix}"])
    settings = replace(SMALL, scenario=Scenario(" ".join(words), 1), frames=50)
    document: Any = replace(session, files=own).emulate(settings)
    assert document["responses"]["statuses"].keys() == {"200"}
    assert document["layers"]["user"]["instructions_per_packet"] > 1000


@pytest.mark.full
def test_files_that_do_not_fit_into_the_guest_are_an_error(
    session: Session, tmp_path: Path
) -> None:
    server = compiled(HTTP, tmp_path)
    # The guest's /tmp is a file system of its own, which also has the messages of errors.
    with TemporaryDirectory(dir="/var/tmp") as folder:
        large = Path(folder) / "large"
        with large.open("wb") as file:
            file.truncate(800 << 20)
        own = files.server_archive([str(server)], [large])
    settings = replace(SMALL, scenario=Scenario(f"{server} {{port}}", 1))
    with pytest.raises(RunFailed, match=r"cannot unpack the server's files; \d+ KiB") as failed:
        replace(session, files=own).emulate(settings)
    assert "--server-files" in failed.value.hint


def test_a_server_runs_in_this_folder_if_it_names_a_file_of_it(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = b'if (access(words[2], 4)) return 4; if (access("own/other", 4) == 0) return 5;'
    server = compiled(HTTP.replace(b"/* daemon */", opens), tmp_path)
    (tmp_path / "own").mkdir()
    for name in ("file", "other"):
        (tmp_path / "own" / name).write_text("")
    monkeypatch.chdir(tmp_path)
    command = [str(server), "{port}", "own/file"]
    settings = replace(SMALL, scenario=Scenario(" ".join(command)))
    own = replace(session, files=files.server_archive(command, ()))
    responses: Any = own.emulate(settings)["responses"]
    assert responses["count"] > 0


def test_a_library_beside_the_program_is_found_in_the_guest(
    session: Session, tmp_path: Path
) -> None:
    library = ["cc", "-shared", "-o", str(tmp_path / "libown.so"), "-x", "c", "-"]
    subprocess.run(library, input=b"int own(void) { return 0; }", check=True)
    program = b"int own(void);" + HTTP.replace(b"/* work */", b"own();")
    (tmp_path / "server.c").write_bytes(program)
    beside = ["-L", str(tmp_path), "-lown", "-Wl,-rpath,$ORIGIN"]
    server = tmp_path / "server"
    source = str(tmp_path / "server.c")
    subprocess.run(["cc", "-O2", "-w", "-o", str(server), source, *beside], check=True)
    settings = replace(SMALL, scenario=Scenario(f"{server} {{port}}"))
    own = replace(session, files=files.server_archive([str(server)], ()))
    responses: Any = own.emulate(settings)["responses"]
    assert responses["count"] > 0


def test_an_unknown_placeholder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"\{prt\} is not known, expected \{root\}"):
        Scenario("server --port={prt}")
