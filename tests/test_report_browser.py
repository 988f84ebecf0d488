"""A report in a real browser: no log, no requests, accessible, on a phone and on paper.

Chromium runs without a window, driven by selenium; axe-core looks for barriers to people with
disabilities.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

from invented import RATES
from perpacket_lab.show import html as report
from perpacket_lab.study.study import Study
from requirements import skip

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from from_code import kept_runs  # noqa: E402

pytestmark = pytest.mark.browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
DRIVER = "chromedriver"
SWITCHES = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
HEIGHT_PX = 900
MOST_S = 120
"""Time limit of a page or a script on a busy machine."""

SMALL_PX, PHONE_PX, DESK_PX = 360, 390, 1280
VIEWS = [(width, theme) for width in (PHONE_PX, DESK_PX) for theme in ("light", "dark")]
GRAVE = {"serious", "critical"}
"""The impacts of axe-core's violations that prevent somebody from using a page."""


class Browser:
    """A browser with one page, its log and its requests since the page was opened."""

    def __init__(self, driver: Any, page: Path) -> None:
        self.driver = driver
        self.address = page.as_uri()

    def open(self, width: int = DESK_PX, theme: str = "light", media: str = "") -> None:
        """Open the page again, with a width and a theme."""
        screen = {"width": width, "height": HEIGHT_PX, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": [feature]}
        )
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(self.address)

    def run(self, script: str, *arguments: object) -> Any:
        """The result of a script."""
        return self.driver.execute_script(script, *arguments)

    def requests(self) -> set[str]:
        """Every address that the page requested, including its own."""
        events = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        return {
            event["message"]["params"]["request"]["url"]
            for event in events
            if event["message"]["method"] == "Network.requestWillBeSent"
        }

    def press(self, *keys: str) -> None:
        """Press keys in the focused element."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """One browser for all these tests; skips them if there is none."""
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    driver_path = shutil.which(DRIVER)
    if chromium is None or driver_path is None:
        skip("browser", "no chromium with chromedriver: see tests/install_peers.sh")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Chromium's own sandbox cannot be set up by root.
    switches = SWITCHES + (("--no-sandbox",) if os.geteuid() == 0 else ())
    for switch in switches:
        options.add_argument(switch)
    try:
        driver = webdriver.Chrome(options=options, service=Service(driver_path))
    except WebDriverException as error:
        skip("browser", f"{chromium} does not start: {error.msg}")
    driver.set_page_load_timeout(MOST_S)
    driver.set_script_timeout(MOST_S)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def browser(driver: Any, page: Path) -> Browser:
    """The report of the invented study."""
    return Browser(driver, page)


DEFAULT_RUNS = ("memory-surface", "osdi06", "sensitivity", "what-if")
"""Kept runs with small reports: heat maps, timelines, published values in rows, and changes."""

KEPT_RUNS = [
    pytest.param(run, id=run, marks=() if run in DEFAULT_RUNS else pytest.mark.full)
    for run in sorted(path.name.partition(".")[0] for path in kept_runs.RUNS.iterdir())
]


@pytest.fixture(scope="module", params=["invented", *KEPT_RUNS])
def any_report(
    request: pytest.FixtureRequest, driver: Any, tmp_path_factory: pytest.TempPathFactory
) -> Browser:
    """The report of the invented study, or of a kept run."""
    if request.param == "invented":
        return Browser(driver, request.getfixturevalue("page"))
    folder = tmp_path_factory.mktemp(request.param)
    archive = kept_runs.RUNS / f"{request.param}{kept_runs.SUFFIX}"
    analysis = kept_runs.analysis_of(kept_runs.unpacked(archive, folder))
    return Browser(driver, report.write(analysis, folder / "report.html"))


def test_the_page_logs_nothing_and_requests_nothing(browser: Browser) -> None:
    browser.open()
    # If the script had failed, the headings would have no buttons.
    assert browser.run("return document.querySelectorAll('th button').length") > 0
    assert browser.driver.get_log("browser") == []
    assert browser.requests() == {browser.address}
    assert browser.run("return performance.getEntriesByType('resource').length") == 0


CHARTS = """
return [...document.querySelectorAll("figure")].map((figure) =>
  [...figure.querySelectorAll("svg")].map((svg) => svg.getBoundingClientRect())
    .filter((box) => box.width > 0).map((box) => [box.left, box.right, box.height]));
"""


@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_every_chart_is_visible_once_and_nothing_scrolls_sideways(
    browser: Browser, study: Study, width: int, theme: str
) -> None:
    browser.open(width, theme)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    seen = browser.run(CHARTS)
    assert len(seen) == len(study.figures)
    for figure, boxes in zip(study.figures, seen, strict=True):
        assert len(boxes) == (figure.title != "Nothing"), figure.title
        for left, right, height in boxes:
            assert 0 <= left < right <= width, figure.title
            assert height > 50, figure.title


TEXTS = """
return [...document.querySelectorAll("svg")].flatMap((svg) => {
  const all = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].filter((one) => one.textContent.trim())
    .map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width);
  const apart = (one, other) => one.right - 1 <= other.left || other.right - 1 <= one.left
    || one.bottom - 4 <= other.top || other.bottom - 4 <= one.top;
  return texts.flatMap(([name, box], index) => [
    ...(box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1
      || box.bottom > all.bottom + 1 ? [`${name} is cut`] : []),
    ...texts.slice(0, index).filter(([, other]) => !apart(box, other))
      .map(([other]) => `${name} is over ${other}`),
  ]);
});
"""


@pytest.mark.parametrize("width", [SMALL_PX, DESK_PX])
def test_no_text_of_a_chart_is_cut_or_over_another(any_report: Browser, width: int) -> None:
    any_report.open(width)
    assert any_report.run(TEXTS) == []


WIDER = """
return [...document.querySelectorAll(".scroll:not(.raw *)")]
  .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.textContent.slice(0, 80));
"""


def test_a_small_phone_shows_the_page_and_its_tables_without_scrolling_sideways(
    any_report: Browser,
) -> None:
    any_report.open(SMALL_PX)
    any_report.run("for (const part of document.querySelectorAll('details')) part.open = true;")
    assert any_report.run("return document.documentElement.scrollWidth") <= SMALL_PX
    assert any_report.run(WIDER) == []


LIGHT, DARK = 150, 100
"""The lightness of light and of dark colours."""
GROUND = "return getComputedStyle(document.body).backgroundColor"
INK = "return getComputedStyle(document.querySelector('figure svg text')).fill"


def lightness(colour: str) -> float:
    """The mean of red, green and blue of `rgb(1, 2, 3)`, 0 to 255."""
    parts = colour.partition("(")[2].rstrip(")").split(",")[:3]
    return sum(map(float, parts)) / 3


def test_a_dark_theme_turns_page_and_charts_dark(browser: Browser) -> None:
    browser.open(theme="light")
    assert lightness(browser.run(GROUND)) > LIGHT
    assert lightness(browser.run(INK)) < DARK
    browser.open(theme="dark")
    assert lightness(browser.run(GROUND)) < DARK
    assert lightness(browser.run(INK)) > LIGHT


@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_axe_finds_no_serious_fault(browser: Browser, width: int, theme: str) -> None:
    axe = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    browser.open(width, theme)
    browser.run("for (const part of document.querySelectorAll('details')) part.open = true;")
    browser.run(axe)
    found = browser.driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document).then((found) => done([found.violations, found.passes.length]));"
    )
    violations, passed = found
    assert passed > 10, "it looked"
    grave = {
        f"{fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in violations
        if fault["impact"] in GRAVE
        for node in fault["nodes"][:2]
    }
    assert not grave, "\n".join(sorted(grave))


ROWS = """
return [...document.querySelectorAll("#means tbody tr")].map((row) => row.cells[0].textContent);
"""
FOCUS = """
const heading = [...document.querySelectorAll("#means thead th")]
  .find((cell) => cell.textContent === "Requests/s");
heading.firstElementChild.focus();
"""
SORTED = """
return [...document.querySelectorAll("#means thead th")].map((cell) => cell.ariaSort)
  .filter(Boolean);
"""


def test_tables_sort_by_keyboard_and_mark_it(browser: Browser) -> None:
    browser.open()
    assert browser.run(ROWS) == list(RATES)
    assert browser.run(SORTED) == []
    browser.run(FOCUS)
    browser.press(Keys.ENTER)
    ascending = sorted(RATES, key=RATES.__getitem__)
    assert browser.run(ROWS) == ascending
    assert browser.run(SORTED) == ["ascending"]
    browser.press(Keys.SPACE)
    assert browser.run(ROWS) == ascending[::-1]
    assert browser.run(SORTED) == ["descending"]


FOCUSED = """
const here = document.activeElement, style = getComputedStyle(here);
const box = here.getBoundingClientRect();
return [here.tagName, style.outlineStyle !== "none", box.right > 0 && box.width > 0,
        here === document.body ? "" : here.className];
"""


def test_everything_can_be_reached_by_keyboard_and_shows_where_it_is(browser: Browser) -> None:
    browser.open()
    browser.press(Keys.TAB)
    assert browser.run(FOCUSED) == ["A", True, True, "skip"]
    browser.press(Keys.ENTER)
    assert browser.run("return location.hash") == "#content"
    browser.open()
    wanted = browser.run(
        "return [...document.querySelectorAll('a, button, summary, [tabindex]')]"
        ".filter((one) => one.checkVisibility()).length"
    )
    stops = []
    for _ in range(wanted):
        browser.press(Keys.TAB)
        stops.append(browser.run(FOCUSED))
    assert all(tag != "BODY" for tag, *_ in stops), "as many stops as things to use"
    assert {"A", "BUTTON", "SUMMARY", "DIV", "PRE"} == {tag for tag, *_ in stops}
    for tag, outlined, in_sight, name in stops:
        assert outlined, (tag, name)
        assert in_sight, (tag, name)


PRINTED = """
const shown = (choice) => [...document.querySelectorAll(choice)]
  .filter((one) => one.checkVisibility()).length;
return [shown("nav"), shown(".wide svg"), shown(".narrow svg")];
"""


def test_on_paper_a_dark_page_is_light_and_whole(browser: Browser, study: Study) -> None:
    browser.open(PHONE_PX, "dark", media="print")
    assert lightness(browser.run(GROUND)) > LIGHT
    assert browser.run(PRINTED) == [0, len(study.figures) - 1, 0]
    paper = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF-")
