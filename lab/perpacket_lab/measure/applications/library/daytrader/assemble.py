"""Puts Tomcat and DayTrader together in the current folder, without what needs an EJB container."""

import re
import shutil
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

ARCHIVES = Path("archives")
TOMCAT = Path("tomcat")
APPLICATION = TOMCAT / "webapps" / "daytrader"
LIBRARIES = APPLICATION / "WEB-INF" / "lib"
REMOVED = {"ejb-ref", "ejb-local-ref", "message-destination-ref", "service-ref"}
"""References of web.xml that only an application server resolves."""


def unpack() -> None:
    """Tomcat without its own applications, DayTrader's pages, and the libraries of both."""
    with tarfile.open(ARCHIVES / "tomcat-9.0.98.tar.gz") as archive:
        archive.extractall(".")
    Path("apache-tomcat-9.0.98").rename(TOMCAT)
    shutil.rmtree(TOMCAT / "webapps")
    with zipfile.ZipFile(ARCHIVES / "daytrader-ear-2.1.7.ear") as ear:
        ear.extractall("ear")
    with zipfile.ZipFile("ear/web.war") as pages:
        pages.extractall(APPLICATION)
    LIBRARIES.mkdir(parents=True, exist_ok=True)
    for file in [*Path("ear").glob("dt-ejb*.jar"), *Path("ear").glob("geronimo-jaxrpc*.jar")]:
        shutil.copy(file, LIBRARIES)
    for file in ARCHIVES.glob("*.jar"):
        shutil.copy(file, TOMCAT / "lib" if file.name.startswith("postgresql") else LIBRARIES)
    shutil.rmtree("ear")
    shutil.rmtree(ARCHIVES)


def local(element: ElementTree.Element) -> str:
    """An element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def needs_container(element: ElementTree.Element) -> bool:
    """Whether an element of web.xml is about EJBs, messages or web services."""
    text = " ".join(child.text or "" for child in element)
    return (
        local(element) in REMOVED
        or (local(element) == "resource-ref" and "jms" in text.lower())
        or "TradeWSAction" in text
        or "ejb3." in text
    )


def edit() -> None:
    """Remove from web.xml what Tomcat does not have."""
    file = APPLICATION / "WEB-INF" / "web.xml"
    document = ElementTree.parse(file)
    root = document.getroot()
    servlets = set()
    for element in list(root):
        if needs_container(element):
            servlets |= {child.text for child in element if local(child) == "servlet-name"}
            root.remove(element)
    for element in list(root):
        names = {child.text for child in element if local(child) == "servlet-name"}
        if names & servlets:
            root.remove(element)
    ElementTree.register_namespace("", root.tag[1:].partition("}")[0])
    document.write(file, encoding="UTF-8", xml_declaration=True)
    for other in APPLICATION.rglob("webservices.xml"):
        other.unlink()


def tables() -> None:
    """The tables in psql's syntax: without comments with # and without dropping missing tables."""
    (source,) = APPLICATION.rglob("postgre/Table.ddl")
    text = re.sub(r"^#.*$", "", source.read_text(), flags=re.MULTILINE)
    Path("tables.sql").write_text(
        re.sub(r"^DROP .*$", "", text, flags=re.MULTILINE | re.IGNORECASE)
    )


unpack()
edit()
tables()
