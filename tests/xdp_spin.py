"""A known cost in a network driver: an XDP program that computes for a while for each frame.

    python xdp_spin.py AGENT DEVICE PAIRS

`test_profiler.py` runs it in the server's network namespace. A driver runs an XDP program for each
received frame, so its time is time of the driver. Two programs alternate at the device: `spin`
computes for about 20 us, `pass` passes the frame on at once. A profile measures each. The output is
one JSON document. Its `pairs` have the time of `spin` and `pass` per frame by the profile
(`found_ns`) and by the kernel's clock of the program (`known_ns`; bpf(2), BPF_ENABLE_STATS), and
the share of missing samples. `calibrated_ns` is the program's time by BPF_PROG_TEST_RUN.

The file has the instructions themselves, because compilers for them are rarely installed: a bounded
loop that the verifier accepts. Exit status 3 means that the kernel refuses the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}
"""Number of bpf(2)."""

PROG_LOAD, PROG_TEST_RUN, OBJ_GET_INFO, LINK_CREATE, LINK_UPDATE, ENABLE_STATS = (
    *(5, 10, 15),
    *(28, 29, 32),
)
"""Commands of bpf(2), `enum bpf_cmd` of linux/bpf.h."""

PROG_TYPE_XDP = 6
ATTACH_XDP = 37
DRIVER_MODE = 1 << 2
"""XDP_FLAGS_DRV_MODE: only in the driver."""

XDP_PASS = 2
REGISTERS_0_6_7 = (0, 6, 7)
MULTIPLIES = 32
"""Multiplications in one iteration of the loop."""

PR_SET_PDEATHSIG = 1
"""An operation of prctl(2): a child ends with its parent."""

INFO_BYTES = 208
RUN_TIME_AT = 192
"""The offset of run_time_ns in `struct bpf_prog_info`; run_cnt follows it."""

SPIN_NS = 20_000
TRIAL_TURNS = 100
TEST_RUNS = 2000
WINDOW_S = 1.5
FREQUENCY_HZ = 499
"""The kernel's clock of the program includes the sampling interrupts, the samples do not."""

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command: int, attributes: bytes) -> tuple[int, bytes]:
    """Call bpf(2); returns its result and the attributes after the call."""
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 128))
    number = SYSTEM_CALL[platform.machine()]
    answer = libc.syscall(number, command, ctypes.byref(buffer), len(buffer))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf command {command}: {os.strerror(error)}")
    return answer, buffer.raw


def instruction(code: int, register: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction with a constant operand."""
    return struct.pack("<BBhi", code, register, offset, value)


def load(turns: int) -> int:
    """Load a program with that many iterations that passes the frame on; returns its descriptor."""
    move, multiply, subtract, jump_unless_equal, leave = 0xB7, 0x27, 0x17, 0x55, 0x95
    answer, counter, number = REGISTERS_0_6_7
    code = b""
    if turns:
        code += instruction(move, counter, value=turns) + instruction(move, number, value=3)
        code += instruction(multiply, number, value=0x5851F42D) * MULTIPLIES
        code += instruction(subtract, counter, value=1)
        code += instruction(jump_unless_equal, counter, offset=-(MULTIPLIES + 2))
    code += instruction(move, answer, value=XDP_PASS) + instruction(leave)
    instructions = ctypes.create_string_buffer(code, len(code))
    licence = ctypes.create_string_buffer(b"MIT")
    attributes = struct.pack(
        "<IIQQIIQII16sII",
        *(PROG_TYPE_XDP, len(code) // 8, ctypes.addressof(instructions)),
        *(ctypes.addressof(licence), 0, 0, 0, 0, 0, b"perpacket_spin", 0, ATTACH_XDP),
    )
    return bpf(PROG_LOAD, attributes)[0]


def test_run_ns(program: int) -> int:
    """The time of a run of the program by BPF_PROG_TEST_RUN, the least mean of five tests."""
    frame = ctypes.create_string_buffer(64)

    def once() -> int:
        attributes = struct.pack(
            "<IIIIQQII", program, 0, len(frame), 0, ctypes.addressof(frame), 0, TEST_RUNS, 0
        )
        written = bpf(PROG_TEST_RUN, attributes)[1]
        return int(struct.unpack_from("<I", written, 36)[0])

    return min(once() for _ in range(5))


def run_time(program: int) -> tuple[int, int]:
    """The total time of the program's runs in nanoseconds, and their number."""
    info = ctypes.create_string_buffer(INFO_BYTES)
    bpf(OBJ_GET_INFO, struct.pack("<IIQ", program, INFO_BYTES, ctypes.addressof(info)))
    time_ns, runs = struct.unpack_from("<QQ", info.raw, RUN_TIME_AT)
    return time_ns, runs


def everywhere() -> str:
    """All processors, because veth runs an XDP program on the processor of the sender."""
    return Path("/sys/devices/system/cpu/online").read_text(encoding="ascii").strip()


@contextmanager
def never_idle() -> Iterator[None]:
    """Run a busy process with idle priority on each processor.

    The timers of some virtual machines do not sample an idle processor, not even its interrupts.
    """
    children = []
    for cpu in sorted(os.sched_getaffinity(1)):
        child = os.fork()
        if not child:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            while True:
                pass
        children.append(child)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def profiled(agent: str, device: str, program: int) -> dict[str, float]:
    """The cost of a frame in the driver by the profile, and the time of the program in it."""
    time_ns, runs = run_time(program)
    command = [agent, "profile", "--duration", str(WINDOW_S), "--frequency", str(FREQUENCY_HZ)]
    command += ["--format", "json", "--quiet", "--events", "clock", "--cpus", everywhere()]
    profile = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    time_after_ns, runs_after = run_time(program)
    frames = profile["interfaces"][device]["packets_received"]
    if not frames or runs_after == runs:
        raise SystemExit(f"no frame came through {device}")
    return {
        "frames": frames,
        "found_ns": profile["layers"]["driver"]["cpu_s"] * 1e9 / frames,
        "known_ns": (time_after_ns - time_ns) / (runs_after - runs),
        "missing_share": profile["missing_share"] or 0,
    }


def main() -> None:
    """Load and attach the programs, profile each in turn, and print the document."""
    agent, device, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    try:
        statistics = bpf(ENABLE_STATS, struct.pack("<I", 0))[0]
        trial_ns = test_run_ns(load(TRIAL_TURNS))
        programs = {"pass": load(0), "spin": load(SPIN_NS * TRIAL_TURNS // max(trial_ns, 1))}
        index = socket.if_nametoindex(device)
        attributes = struct.pack("<IIII", programs["pass"], index, ATTACH_XDP, DRIVER_MODE)
        link = bpf(LINK_CREATE, attributes)[0]
    except (OSError, KeyError) as error:
        print(f"no program at the device: {error}", file=sys.stderr)
        raise SystemExit(3) from error
    found = []
    with never_idle():
        for pair in range(pairs):
            # The order alternates, so that a drift affects both equally.
            order = ("spin", "pass") if pair % 2 else ("pass", "spin")
            both = {}
            for name in order:
                bpf(LINK_UPDATE, struct.pack("<IIII", link, programs[name], 0, 0))
                both[name] = profiled(agent, device, programs[name])
            found.append(both)
    document = {"calibrated_ns": test_run_ns(programs["spin"]), "pairs": found}
    os.close(link)
    os.close(statistics)
    print(json.dumps(document))


if __name__ == "__main__":
    main()
