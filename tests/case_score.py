"""The score of advice on the cases of tests/cases; `make test-cases` prints it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from perpacket import api
from perpacket.errors import ConfigurationError
from perpacket.show import advice_tables as shown

FOLDER = Path(__file__).parent / "cases"

PAGE = Path(__file__).parent.parent / "docs" / "advice.md"

BEGIN, END = "<!-- score -->", "<!-- end of the score -->"
"""Where the page has the score."""

NONE = "none"
"""The answer that no change of the network helps."""

FIRST = 3
"""The right answer must be among so many."""


class Expected(BaseModel):
    """The file case.toml; tests/cases/README.md explains it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    source: str
    first: list[str] = Field(default_factory=list)
    value: str = ""
    also: list[str] = Field(default_factory=list)
    never: list[str] = Field(default_factory=list)
    says: list[str] = Field(default_factory=list)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What advice answered to a case."""

    name: str
    expected: Expected
    answers: tuple[tuple[str, str], ...]
    """The changes and their values, the first advice first."""
    text: str

    @property
    def rank(self) -> int:
        """The place of the right answer, from 1; 0 if it is missing."""
        first, value = self.expected.first, self.expected.value
        if not first:
            return 0 if self.false else 1
        for place, (name, given) in enumerate(self.answers, 1):
            if name in first and value in ("", given):
                return place
        return 0

    @property
    def false(self) -> list[str]:
        """The advice that must not be given."""
        names = {name for name, _ in self.answers}
        return [name for name in self.expected.never if name in names]

    @property
    def missing(self) -> list[str]:
        """The changes and the texts that are missing."""
        names = {name for name, _ in self.answers}
        lacks = [name for name in self.expected.also if name not in names]
        plain = " ".join(self.text.split())
        texts = (*self.expected.says, *filter(None, [self.expected.refused]))
        return [*lacks, *(text for text in texts if text not in plain)]

    @property
    def is_right(self) -> bool:
        """Whether the case counts: the right answer early, nothing false, everything said."""
        refused = bool(self.expected.refused)
        return (refused or 1 <= self.rank <= FIRST) and not self.false and not self.missing


def files_of(folder: Path) -> list[Path]:
    """The files that somebody sent: all but the question with its answer."""
    return sorted(path for path in folder.iterdir() if path.name != "case.toml")


def run(folder: Path) -> Result:
    """Ask for advice on a case."""
    expected = Expected.model_validate(tomllib.loads((folder / "case.toml").read_text()))
    try:
        report = api.advise(files=files_of(folder)).report
    except ConfigurationError as error:
        return Result(folder.name, expected, (), f"{error} {error.hint}")
    answers = [(one.change.name, one.value) for one in report.advice]
    if report.limit is not None and report.limit.is_elsewhere:
        answers.insert(0, (NONE, ""))
    text = "\n".join(shown.lines(report, 200))
    return Result(folder.name, expected, tuple(answers), text)


def folders() -> list[Path]:
    """Every case."""
    return sorted(path.parent for path in FOLDER.glob("*/case.toml"))


def lines(results: list[Result]) -> Iterator[str]:
    """The score as a table of Markdown."""
    yield "| case | question | right answer | place | first advice |"
    yield "|---|---|---|---|---|"
    for one in results:
        wanted = " or ".join(one.expected.first) or ("refused" if one.expected.refused else "-")
        wanted += f"={one.expected.value}" if one.expected.value else ""
        first = "=".join(filter(None, one.answers[0])) if one.answers else "-"
        place = str(one.rank) if one.rank and one.expected.first else "-"
        mark = "" if one.is_right else " (wrong)"
        yield f"| {one.name}{mark} | {one.expected.question} | {wanted} | {place} | {first} |"
    right = sum(one.is_right for one in results)
    top = sum(one.rank == 1 and one.is_right for one in results if one.expected.first)
    false = sum(bool(one.false) for one in results)
    yield ""
    yield (
        f"{right} of {len(results)} cases are right, {top} of them with the right answer in the "
        f"first place; {false} have false advice."
    )


def page(results: list[Result]) -> str:
    """The page with the score of these results."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n" + "\n".join(lines(results)) + f"\n{END}{after}"


def main() -> int:
    """Print the score, and write it into the page."""
    results = [run(folder) for folder in folders()]
    for line in lines(results):
        print(line)
    for wrong in (one for one in results if not one.is_right):
        print(f"{wrong.name}: false {wrong.false}, missing {wrong.missing}, got {wrong.answers}")
    PAGE.write_text(page(results), encoding="utf-8")
    return 0 if all(one.is_right for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
