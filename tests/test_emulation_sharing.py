"""Injected false sharing is found at its variable, and goes when the variable is padded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from a_server import compiled
from perpacket.cli import app
from perpacket_lab.emulate.program_variables import variables

TWO_THREADS = b"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
static const char answer[] = "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok";
struct { volatile long requests; char padding[PADDING]; } served[2] __attribute__((aligned(64)));
static int listener;
static void *thread(void *number) {
    long own = (long)number;
    char request[4096];
    cpu_set_t processors;
    CPU_ZERO(&processors);
    CPU_SET(own, &processors);
    sched_setaffinity(0, sizeof processors, &processors);
    for (;;) {
        int connection = accept(listener, 0, 0);
        while (read(connection, request, sizeof request) > 0) {
            for (int step = 0; step < 400; step++) served[own].requests++;
            write(connection, answer, sizeof answer - 1);
        }
        close(connection);
    }
}
int main(int count, char **words) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    pthread_t other;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 100);
    pthread_create(&other, 0, thread, (void *)1);
    thread(0);
}
"""
"""A web server with two threads, each with one connection. Each writes a counter of its own, 400
times a request."""

LINKED = ("-static", "-no-pie", "-pthread")


def program(folder: Path, padding: int) -> Path:
    """The server whose counters are `padding` bytes apart."""
    folder.mkdir()
    return compiled(TWO_THREADS.replace(b"PADDING", str(padding).encode()), folder, *LINKED)


def emulated(server: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The lines that move in an emulation of the server on two processors."""
    words = ["--processors", "2", "--queues", "2", "--connections", "2", "--frames", "400"]
    words += ["--warmup-frames", "100", "--replications", "1", "--turn-instructions", "2000"]
    command = ["emulate", "--server", f"{server} {{port}}", *words, "--by", "structure"]
    assert app.run([*command, "--format", "json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)["sharing"]  # type: ignore[no-any-return]


def of_counters(sharing: dict[str, Any]) -> dict[str, Any] | None:
    """The moves of the counters."""
    own = [one for one in sharing["structures"] if one["structure"] == "served (program)"]
    return own[0] if own else None


def test_the_variables_of_a_program_are_those_of_its_symbol_table(tmp_path: Path) -> None:
    server = program(tmp_path / "shared", 0)
    own = [line.split() for line in variables(server).splitlines()]
    address, size, _ = next(one for one in own if one[2] == "served")
    assert int(address, 16) % 64 == 0
    assert int(size) == 16, "two counters of eight bytes"
    shifting = compiled(b"int main(void) { return 0; }", tmp_path, "-pie", "-fPIE")
    assert variables(shifting) == ""
    text = tmp_path / "text"
    text.write_text("no program")
    assert variables(text) == ""


@pytest.mark.full
@pytest.mark.usefixtures("session")
def test_false_sharing_is_found_at_its_variable_and_padding_removes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = of_counters(emulated(program(tmp_path / "shared", 0), capsys))
    assert shared is not None
    false = shared["false_sharing_per_packet"].popitem()[1]["value"]
    assert false > 0.1, "a line moves in every turn in which the other thread writes"
    assert false > 20 * shared["true_sharing_per_packet"].popitem()[1]["value"]
    assert {one["member"] for one in shared["members"]} == {"+0", "+8"}
    padded = of_counters(emulated(program(tmp_path / "padded", 56), capsys))
    if padded is not None:
        assert padded["moved_lines_per_packet"].popitem()[1]["value"] < false / 20
