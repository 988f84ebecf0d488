"""The root of a server: an unpacked folder, or the tar of an image (OCI, or of `docker save`).

An image has layers, which are unpacked in order. A file `.wh.NAME` in a layer removes NAME of the
earlier ones, and `.wh..wh..opq` removes all of its folder (layer.md of the OCI image format).
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from perpacket.errors import ConfigurationError
from perpacket_lab.emulate.archive import Archive

FOLDER = "server"
"""The folder of the guest with the root."""
MOST_BYTES = 400 << 20
"""The guest has 1 GiB of memory, and its file system may use half."""
SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
OPTION = "--server-root"


def add_root(files: Archive, path: Path) -> list[str]:
    """Add a root in the guest's folder `FOLDER`.

    Returns the environment that an image sets, as words `NAME=VALUE`. Raises `ConfigurationError`
    if the path is neither a folder nor a tar, or too large.
    """
    try:
        environment = add_folder(files, path) if path.is_dir() else add_image(files, path)
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, EOFError) as error:
        raise ConfigurationError(
            f"{OPTION} {path}: expected an unpacked root, or the tar of an image: {error}",
            parameter=OPTION,
            hint="`docker save IMAGE` or `podman save --format oci-archive IMAGE` writes it",
        ) from None
    if files.size_bytes > MOST_BYTES:
        raise ConfigurationError(
            f"{OPTION} {path}: {files.size_bytes / 1e6:,.0f} MB, expected at most "
            f"{MOST_BYTES / 1e6:,.0f}, because the guest has the files in its memory",
            parameter=OPTION,
        )
    return [SEARCH_PATH, *environment]


def add_folder(files: Archive, root: Path) -> list[str]:
    """Add the files, folders and links of a folder."""
    for folder, folders, names in os.walk(root):
        for name in sorted(folders + names):
            path = Path(folder, name)
            place = f"{FOLDER}/{path.relative_to(root)}"
            if path.is_symlink():
                files.link(place, str(path.readlink()))
            elif path.is_dir():
                files.folder(place)
            elif path.is_file():
                is_program = bool(path.stat().st_mode & 0o111)
                files.add(place, path.read_bytes(), executable=is_program)
    return []


def add_image(files: Archive, path: Path) -> list[str]:
    """Add the layers of an image's tar, or the tar of a root itself."""
    with tarfile.open(path) as image:
        names = set(image.getnames())
        if "manifest.json" in names:
            (manifest, *_) = document(image, "manifest.json")
            config, layers = manifest["Config"], manifest["Layers"]
        elif "index.json" in names:
            manifest = document(image, "index.json")
            while "manifests" in manifest:
                manifest = document(image, blob(manifest["manifests"][0]))
            config = blob(manifest["config"])
            layers = [blob(layer) for layer in manifest["layers"]]
        else:
            add_layer(files, image)
            return []
        for name in layers:
            with member(image, name) as content, tarfile.open(fileobj=content) as layer:
                add_layer(files, layer)
        return list(document(image, config).get("config", {}).get("Env") or ())


def blob(description: Any) -> str:
    """The name of the file that a descriptor of OCI names by its digest."""
    return f"blobs/{description['digest'].replace(':', '/')}"


@contextmanager
def member(image: tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    """A file of a tar."""
    content = image.extractfile(name)
    if content is None:
        raise ValueError(f"{name} is no file")
    with content:
        yield content


def document(image: tarfile.TarFile, name: str) -> Any:
    """A JSON document of a tar."""
    with member(image, name) as content:
        return json.load(content)


def add_layer(files: Archive, layer: tarfile.TarFile) -> None:
    """Add a layer to the earlier ones. Devices are left out."""
    for entry in layer:
        place = PurePosixPath(
            FOLDER, *[part for part in entry.name.split("/") if part not in ("", ".", "..")]
        )
        if place.name == OPAQUE:
            files.remove_below(str(place.parent))
        elif place.name.startswith(WHITEOUT):
            files.remove(str(place.with_name(place.name.removeprefix(WHITEOUT))))
        elif entry.isdir():
            files.folder(str(place))
        elif entry.issym():
            files.link(str(place), entry.linkname)
        elif entry.islnk():
            files.copy(f"{FOLDER}/{entry.linkname.removeprefix('./')}", str(place))
        elif (content := layer.extractfile(entry)) is not None:
            files.add(str(place), content.read(), executable=bool(entry.mode & 0o111))


def program_in(files: Archive, name: str, environment: Sequence[str]) -> str:
    """The path, in the root, of a program; raises `ConfigurationError` if the root lacks it."""
    (*_, search) = (word for word in environment if word.startswith("PATH="))
    folders = [""] if "/" in name else search.removeprefix("PATH=").split(":")
    for folder in folders:
        if files.resolve(FOLDER, f"{folder}/{name}"):
            return f"{folder}/{name}"
    raise ConfigurationError(
        f"--server {name}: the root of {OPTION} has no such program",
        parameter="--server",
        hint=f"expected a path in the root, or a name in {search}",
    )
