"""Whether the kernel loads and runs XDP programs, with which `route` forwards in the driver."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

from perpacket.machine.capability import Capability, Check, Group

SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}
"""Number of bpf(2)."""

PROG_LOAD, PROG_TEST_RUN = 5, 10
"""Commands of bpf(2), `enum bpf_cmd` of linux/bpf.h."""

LIVE_FRAMES = 1 << 1
"""BPF_F_TEST_XDP_LIVE_FRAMES: the kernel sends the test run's frames as the program decides."""

PROG_TYPE_XDP = 6
XDP_DROP = 1
MOVE, LEAVE = 0xB7, 0x95
FRAME_BYTES = 64

CHECK = Check(
    "xdp",
    Group.NETWORK,
    "`route` cannot forward by XDP, and the profiler cannot be checked with a known cost in a "
    "driver",
    "run as root or with CAP_BPF and CAP_NET_ADMIN, on a kernel with BPF",
)


def capability() -> Capability:
    """Whether a program that drops every frame loads and runs."""
    return CHECK.attempt(run_a_program)


def run_a_program() -> str:
    """Load the program, and run it in a test run and on a live frame, which it drops."""
    program = load()
    try:
        test_run(program, 0)
        try:
            test_run(program, LIVE_FRAMES)
        except OSError as error:
            return f"a program loads and runs, but not on live frames ({error.strerror})"
    finally:
        os.close(program)
    return "a program loads and runs, also on live frames"


def bpf(command: int, attributes: bytes) -> int:
    """The system call; raises `OSError` with the kernel's error."""
    number = SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError(f"the number of bpf(2) on {platform.machine()} is unknown")
    system = ctypes.CDLL(None, use_errno=True)
    # The buffer can be longer than the attributes: the kernel accepts zeros after them.
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = int(system.syscall(number, command, ctypes.byref(buffer), len(buffer)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def load() -> int:
    """Load `return XDP_DROP`; returns its descriptor."""
    code = struct.pack("<BBhi", MOVE, 0, 0, XDP_DROP) + struct.pack("<BBhi", LEAVE, 0, 0, 0)
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"MIT")
    attributes = struct.pack(
        "<IIQQ",
        *(PROG_TYPE_XDP, len(code) // 8),
        *(ctypes.addressof(instructions), ctypes.addressof(licence)),
    )
    return bpf(PROG_LOAD, attributes)


def test_run(program: int, flags: int) -> None:
    """Run a program once on a frame of zeros."""
    frame = ctypes.create_string_buffer(FRAME_BYTES)
    once, no_context = 1, (0, 0, 0, 0)
    bpf(
        PROG_TEST_RUN,
        struct.pack(
            "<IIIIQQIIIIQQI",
            *(program, 0, FRAME_BYTES, 0, ctypes.addressof(frame), 0, once, 0),
            *no_context,
            flags,
        ),
    )
