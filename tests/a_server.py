"""A small web server in C, which tests of the emulated machine change and compile."""

from __future__ import annotations

import subprocess
from pathlib import Path

HTTP = b"""
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char answer[] = "HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok";
int main(int count, char **words) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    char request[4096];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    bind(listener, (struct sockaddr *)&address, sizeof address);
    listen(listener, 100);
    /* daemon */
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    while (epoll_wait(poll, &event, 1, -1) == 1) {
        int connection = event.data.fd;
        if (connection == listener) {
            event = (struct epoll_event){.events = EPOLLIN, .data.fd = accept(listener, 0, 0)};
            epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
        } else if (read(connection, request, sizeof request) <= 0) {
            close(connection);
        } else {
            /* work */
            write(connection, answer, sizeof answer - 1);
        }
    }
}
"""
"""A small web server. Tests replace its comments by more work."""


def compiled(program: bytes, folder: Path, *options: str) -> Path:
    """The executable of a program."""
    path = folder / "server"
    command = ["cc", *options, "-O2", "-w", "-o", str(path), "-x", "c", "-"]
    subprocess.run(command, input=program, check=True)
    return path
