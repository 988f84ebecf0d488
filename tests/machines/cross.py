"""Builds the agent for another architecture: static and stripped.

`python -m machines.cross TARGET` prints its path. `python -m machines.cross TARGET FOLDER` makes a
wheel of it from this machine's wheel in the folder. Both use rustup's standard library of that
target if it is installed, else the compiler and the standard library of Debian sid, which are
unpacked in the cache folder.
"""

from __future__ import annotations

import base64
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from perpacket.errors import MachineLacks, PerpacketError, RunFailed
from perpacket_lab.emulate import debian, folders

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent
PROGRAM = "perpacket-agent"
LARGEST_MB = 12.0
LEVEL = os.environ.get("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
"""How much the compiler optimizes. The tests of every run use 1, which compiles faster."""

OWN = shutil.ignore_patterns("*perpacket*", "incremental")
"""The files of our own crates in a target folder."""


@dataclass(frozen=True, slots=True)
class Target:
    """How Debian names the parts of a target."""

    architecture: str
    gnu: str
    """The prefix of the compiler of C."""
    wheel: str
    """The platforms of a wheel. A static executable runs with every C library."""


TARGETS = {
    "aarch64-unknown-linux-gnu": Target(
        "arm64", "aarch64-linux-gnu", "manylinux_2_17_aarch64.musllinux_1_1_aarch64"
    )
}


def agent(name: str) -> Path:
    """The agent for a target, built if its sources changed.

    Raises `MachineLacks` without a compiler, and `RunFailed` if it does not compile.
    """
    target = TARGETS.get(name)
    if target is None:
        expected = ", ".join(TARGETS)
        raise MachineLacks(f"TARGET={name}: the agent is not built for it; expected {expected}")
    output = SOURCE / "target" / f"cross-{LEVEL}"
    lock_file = sha256((SOURCE / "Cargo.lock").read_bytes()).hexdigest()[:12]
    dependencies = folders.cache() / "fleet" / f"dependencies-{name}-{LEVEL}-{lock_file}"
    if not (output / name).is_dir() and dependencies.is_dir():
        shutil.copytree(dependencies, output, symlinks=True, dirs_exist_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    command, environment = rustup(name, target, output) or sid(name, target, output)
    of_all = f'profile.release.package."*".opt-level={LEVEL}'
    words = ["build", "--release", "--locked", "--quiet", "--package", PROGRAM, "--target", name]
    words += ["--config", of_all]
    done = subprocess.run([*command, *words], env=environment, check=False, cwd=SOURCE)
    if done.returncode:
        raise RunFailed(f"the agent for {name} was not built; the compiler's errors are above")
    if not dependencies.is_dir():
        # Another clone compiles its own crates, whatever the times of its files are.
        with folders.made(dependencies) as new:
            shutil.copytree(output, new, symlinks=True, dirs_exist_ok=True, ignore=OWN)
    program = output / name / "release" / PROGRAM
    size_mb = program.stat().st_size / 1e6
    if size_mb > LARGEST_MB:
        raise RunFailed(f"{program}: {size_mb:.1f} MB, expected at most {LARGEST_MB:.0f} MB")
    return program


def settings(name: str, target: Target, output: str) -> dict[str, str]:
    """The environment of a build."""
    compiler = f"{target.gnu}-gcc"
    return {
        f"CARGO_TARGET_{name.upper().replace('-', '_')}_LINKER": compiler,
        f"CC_{name.replace('-', '_')}": compiler,
        "CARGO_TARGET_DIR": output,
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": LEVEL,
        "CARGO_PROFILE_RELEASE_LTO": os.environ.get("CARGO_PROFILE_RELEASE_LTO", "off"),
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": os.environ.get(
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"
        ),
        "RUSTFLAGS": "-C target-feature=+crt-static",
    }


def rustup(name: str, target: Target, output: Path) -> tuple[list[str], dict[str, str]] | None:
    """The command and environment of a build by rustup's compiler, if it has the target."""
    asked = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", name],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode or not list(Path(asked.stdout.strip()).glob("libstd-*.rlib")):
        return None
    if shutil.which(f"{target.gnu}-gcc") is None:
        raise MachineLacks(
            f"{target.gnu}-gcc: not found", f"`apt-get install gcc-{target.gnu}` or your system's"
        )
    return ["cargo"], {**os.environ, **settings(name, target, str(output))}


def sid(name: str, target: Target, output: Path) -> tuple[list[str], dict[str, str]]:
    """The command and environment of a build by Debian sid's compiler, in a root of its own."""
    root = toolchain(target)
    cargo_home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    manifest = ("--offline", "--locked", "--quiet", "--manifest-path", str(SOURCE / "Cargo.toml"))
    # The compiler in the other root has no certificates, so this machine's cargo gets the sources.
    subprocess.run(["cargo", "fetch", *manifest[1:]], check=True)
    mounts = [(SOURCE, "source"), (cargo_home, "cargo"), (output, "output"), (Path("/dev"), "dev")]
    script = "set -e\n"
    for folder, place in mounts:
        script += f'mount --rbind "{folder}" "{root / place}"\n'
    script += f'exec chroot "{root}" cargo "$@" --offline --manifest-path /source/Cargo.toml\n'
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    environment = {
        **settings(name, target, "/output"),
        "PATH": "/usr/bin:/usr/sbin:/bin:/sbin",
        "HOME": "/root",
        "CARGO_HOME": "/cargo",
        # The links that the packages' scripts would make are missing.
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER": "gcc",
        "CC": "gcc",
    }
    return ["unshare", *rights, "--mount", "sh", "-c", script, "sh"], environment


def toolchain(target: Target) -> Path:
    """The root with the compiler of Debian sid, unpacked if the cache has none."""
    folder = folders.cache() / "fleet" / f"rust-{target.architecture}"
    if not folder.is_dir():
        with folders.made(folder) as new:
            root = new / "root"
            for name in ("bin", "lib", "lib64", "sbin"):
                (root / "usr" / name).mkdir(parents=True)
                (root / name).symlink_to(f"usr/{name}")
            for name in ("source", "cargo", "output", "dev", "tmp", "root"):
                (root / name).mkdir()
            compilers = (f"gcc-{target.gnu}", f"libc6-dev-{target.architecture}-cross")
            packages = ("rustc", "cargo", "gcc", "libc6-dev", *compilers)
            debian.suite("sid", "amd64").unpack_all(packages, root)
            debian.suite("sid", target.architecture).unpack("libstd-rust-dev", root)
    return folder / "root"


def wheel(own: Path, program: Path, tag: str) -> Path:
    """A wheel beside this machine's, with another executable and its platform's tag.

    The layout is that of the specification "Binary distribution format" of PyPA.
    """
    made = own.with_name("-".join([*own.name.split("-")[:2], "py3", "none", f"{tag}.whl"]))
    record: list[str] = []
    with ZipFile(own) as source, ZipFile(made, "w", ZIP_DEFLATED) as target:
        for entry in source.infolist():
            content = source.read(entry)
            name = entry.filename.rpartition("/")[2]
            if entry.filename.endswith(f".data/scripts/{PROGRAM}"):
                content = program.read_bytes()
            elif name == "WHEEL":
                tags = "".join(f"Tag: py3-none-{each}\n" for each in tag.split("."))
                content = re.sub(rb"Tag: .*\n", b"", content) + tags.encode()
            elif name == "RECORD":
                record.append(f"{entry.filename},,")
                content = "\n".join([*record, ""]).encode()
            if name != "RECORD":
                digest = base64.urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
                record.append(f"{entry.filename},sha256={digest},{len(content)}")
            target.writestr(entry, content)
    return made


def main(name: str, folder: str = "") -> None:
    """Build the agent for a target, and a wheel of it if a folder is given."""
    program = agent(name)
    if folder:
        tag = TARGETS[name].wheel
        (own,) = Path(folder).glob(f"{PROGRAM.replace('-', '_')}-*-linux_{platform.machine()}.whl")
        program = wheel(own, program, tag)
    print(program)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except PerpacketError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
