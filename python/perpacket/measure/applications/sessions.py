"""A client of an application: it walks through pages, sends forms and checks every answer."""

from __future__ import annotations

import http.client
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlencode, urlsplit

from perpacket.measure.applications.file import PLACEHOLDER, Page, Session

TIMEOUT_S = 60.0
"""Time limit of an answer: the first page of an interpreter compiles the application."""

SHOWN = 80
"""Characters of an answer in a message."""


@dataclass
class Checked:
    """The answers to the requests of some sessions."""

    pages: Counter[str] = field(default_factory=Counter)
    """Requests by page."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Wrong answers by page."""
    problems: list[str] = field(default_factory=list)
    """The first wrong answer of each page, as a sentence."""

    @property
    def requests(self) -> int:
        """All requests."""
        return self.pages.total()

    @property
    def wrong_share(self) -> float:
        """Wrong answers as a share of the requests; 1 if there were none."""
        return self.wrong.total() / self.requests if self.requests else 1.0

    def add(self, page: str, problem: str | None) -> None:
        """Count an answer."""
        self.pages[page] += 1
        if problem is not None:
            if page not in self.wrong:
                self.problems.append(f"{page}: {problem}")
            self.wrong[page] += 1


class Client:
    """A client with its cookies and its connection; a new session has neither."""

    def __init__(self, session: Session, url: str, chance: random.Random) -> None:
        """A client of the application at a URL; `chance` makes its choices."""
        parts = urlsplit(url)
        self._session = session
        self._chance = chance
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=TIMEOUT_S
        )
        self._cookies: dict[str, str] = {}
        self._extracted: dict[str, str] = {}

    def walk(self, most_pages: int) -> Iterable[tuple[str, str | None]]:
        """Request pages until the session ends; yields each with its problem.

        A wrong answer ends the session: what follows needs what it lacks.
        """
        name: str | None = self._session.start
        problem: str | None = None
        for _ in range(most_pages):
            if name is None or problem is not None:
                break
            page = self._session.page[name]
            problem = self.request(page)
            yield name, problem
            name = self._next(page)
        self._connection.close()

    def request(self, page: Page) -> str | None:
        """Request a page; the problem with its answer, None if it is right."""
        values = {
            **{
                name: str(self._chance.randint(number.first, number.last))
                for name, number in self._session.numbers.items()
            },
            **self._extracted,
        }
        path = fill(page.path, {name: quote(text, safe="") for name, text in values.items()})
        body = urlencode({name: fill(text, values) for name, text in page.form.items()})
        headers = {"Cookie": "; ".join(f"{name}={text}" for name, text in self._cookies.items())}
        if page.form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            self._connection.request(
                "POST" if page.form else "GET",
                path,
                body or None,
                {name: text for name, text in headers.items() if text},
            )
            answer = self._connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return f"{path}: {str(error) or type(error).__name__}"
        self._remember(answer.headers.get_all("Set-Cookie") or [])
        return self._problem(page, path, answer.status, text, values)

    def _problem(
        self, page: Page, path: str, status: int, text: str, values: dict[str, str]
    ) -> str | None:
        if status != page.status:
            return f"{path}: status {status}, expected {page.status}"
        wanted = fill(page.contains, values)
        if wanted not in text:
            return f"{path}: {len(text)} characters without {wanted!r}: {text[:SHOWN]!r}"
        for name, place in page.extract.items():
            _, found, rest = text.partition(place.after)
            value, ended, _ = rest.partition(place.until)
            if not found or not ended:
                return f"{path}: no text between {place.after!r} and {place.until!r}"
            self._extracted[name] = value
        return None

    def _remember(self, lines: Iterable[str]) -> None:
        """Store cookies; one without a value is deleted."""
        for line in lines:
            cookie: SimpleCookie = SimpleCookie()
            try:
                cookie.load(line)
            except CookieError:
                continue
            for name, morsel in cookie.items():
                if morsel.value and morsel["max-age"] != "0":
                    self._cookies[name] = morsel.value
                else:
                    self._cookies.pop(name, None)

    def _next(self, page: Page) -> str | None:
        """The next page; None ends the session."""
        point = self._chance.random()
        for name, share in page.next.items():
            point -= share
            if point < 0:
                return name
        return None


def fill(text: str, values: dict[str, str]) -> str:
    """A text with placeholders such as `@message@` replaced; empty before its extraction."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], ""), text)


def check(session: Session, url: str, seed: int, each: int, most_pages: int) -> Checked:
    """Walk through sessions until each page was requested `each` times, or `most_pages` in all."""
    chance = random.Random(seed)
    checked = Checked()
    while checked.requests < most_pages and min_requests(session, checked) < each:
        for name, problem in Client(session, url, chance).walk(most_pages - checked.requests):
            checked.add(name, problem)
    return checked


def min_requests(session: Session, checked: Checked) -> int:
    """The requests of the page with the fewest."""
    return min(checked.pages[name] for name in session.page)
