"""The catalogue of changes."""

from __future__ import annotations

from importlib import resources

import pytest

from perpacket.advise import catalogue
from perpacket.errors import ConfigurationError

CHANGES = list(catalogue.load().values())


def test_every_file_of_the_catalogue_is_a_change() -> None:
    folder = resources.files("perpacket.advise") / catalogue.FOLDER
    assert len(CHANGES) == len(list(folder.iterdir())) > 30


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.name))
def test_a_change_is_complete(change: catalogue.Change) -> None:
    kinds = [bool(change.values), change.number is not None, change.free]
    assert sum(kinds) == 1, "it has one kind of value"
    assert bool(change.evidence) != bool(change.never_suggested)
    assert change.bound.layers or change.bound.frames
    assert (change.action == "advise") == (change.setting is None and not change.server)
    assert change.source.title


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change.name))
def test_the_suggested_value_is_accepted(change: catalogue.Change) -> None:
    for direction in change.directions:
        if "{" not in direction.suggest:
            change.check(direction.suggest)


def test_a_change_is_found_with_its_value() -> None:
    change, value = catalogue.find("tso=off")
    assert (change.name, value) == ("tso", "off")


def test_an_option_of_a_server_has_its_own_words() -> None:
    sendfile = catalogue.load()["sendfile"]
    assert sendfile.option("nginx", "on") == "sendfile on;"
    assert sendfile.option("serve web", "off") == "--sendfile-above 1024GiB"
    assert sendfile.option("apache", "off") is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("tos=off", "there is no change tos"),
        ("tso", "expected tso=VALUE, with on or off"),
        ("tso=maybe", "expected on or off"),
        ("mtu=9000.5", "a whole number from 576 to 65535"),
        ("mtu=big", "a whole number"),
        ("rps=", "any text"),
    ],
)
def test_a_wrong_name_or_value_is_an_error_that_lists_what_exists(text: str, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part):
        catalogue.find(text)


def test_an_unknown_key_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigurationError, match=r"x\.toml: color"):
        catalogue.read("x.toml", 'name = "x"\ncolor = "red"\n')
