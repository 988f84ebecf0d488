"""Profiles of real servers over the networks of the testbed: unclaimed time, and known costs.

The tests need the agent, perf, kernel symbols and, except over loopback, root. A test skips and
names what is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import quiet
from patience import PATIENCE_S
from perpacket.analysis import statistics
from perpacket.measure.hosts import contract
from perpacket_lab.measure import hosts
from perpacket_lab.measure.hosts.network import DEVICE
from probes import need
from quiet import skip_or_fail
from requirements import DISTURBED, skip

pytestmark = pytest.mark.live

UNCLAIMED_MOST = 0.02
"""Largest share of kernel samples that no rule claims."""

KERNEL_SAMPLES_LEAST = 1000
"""The least number of kernel samples for judging a share of two in a hundred."""

MISSING_MOST = 0.05
"""Largest share of a timer's samples that may be missing if a test judges their number."""

FREQUENCY_HZ = 1999
SPIN = Path(__file__).with_name("xdp_spin.py")
PAIRS = 8
BIAS_MOST = 0.2
"""Largest systematic error of a cost in the driver, as a share of the cost; up to 0.15 was seen."""

NETWORKS: dict[str, Callable[[], contract.Testbed]] = {
    "loopback": hosts.loopback,
    "veth": hosts.namespaces,
    "link": lambda: hosts.namespaces(one_way_latency_us=500, use_netem=False),
}


@pytest.fixture(scope="module", autouse=True)
def needs_profiles() -> None:
    need("perf")


def started(network: str) -> contract.Testbed:
    if network != "loopback":
        need("netns")
    return NETWORKS[network]()


def serve(
    bed: contract.Testbed, load: tuple[str, ...] = ("--connections", "32")
) -> tuple[contract.Process, str]:
    """A server of the testbed under load until the testbed is left, and its URL."""
    server = bed.server.start(
        [
            bed.server.agent(),
            "serve",
            "web",
            "--routes",
            "--listen",
            f"{bed.server.address}:0",
            "--quiet",
        ]
    )
    url = server.wait_for_line(r"listening on (\S+)", PATIENCE_S)[1]
    command = [bed.clients[0].agent(), "load", "http", f"{url}/bytes/10240", *load]
    client = bed.clients[0].start([*command, "--duration", str(PATIENCE_S), "--quiet"])
    assert client.poll() is None
    return server, url


@pytest.mark.parametrize("network", NETWORKS)
def test_under_two_percent_of_kernel_samples_of_web_serving_are_unclaimed(network: str) -> None:
    def measure() -> str:
        with started(network) as bed:
            assert bed.network == network
            server, url = serve(bed)
            command = [bed.server.agent(), "profile", "--duration", "4", "--format", "json"]
            command += ["--quiet", "--frequency", str(FREQUENCY_HZ), "--pid", str(server.pid)]
            command += ["--requests", f"{url}/.perpacket/report"]
            done = bed.server.run(command, timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        profile = json.loads(done.stdout)
        busy = profile["total"]["cpu_s"] * FREQUENCY_HZ
        others = profile["categories"]["other_programs"]["share"]
        kernel = busy * (1 - profile["layers"]["user"]["share"] - others)
        unclaimed = profile["unclaimed_share"]
        print(f"{network}: {kernel:.0f} kernel samples, {unclaimed:.4f} unclaimed")
        assert profile["requests"] > 0
        if kernel < KERNEL_SAMPLES_LEAST:
            skip_or_fail(f"only {kernel:.0f} kernel samples")
        needed = ("user", "syscall", "socket", "tcp", "ip", "ethernet", "driver")
        empty = [layer for layer in needed if not profile["layers"][layer]["share"]]
        if empty:
            return f"nothing was seen in {empty}"
        few = unclaimed < UNCLAIMED_MOST
        return "" if few else f"{unclaimed} unclaimed: {profile['unclaimed_top']}"

    quiet.judge(measure)


def test_user_code_of_the_load_generator_is_not_the_servers() -> None:
    """Both are in one file, the agent, and one testbed started both."""

    def measure() -> str:
        with started("loopback") as bed:
            server, _ = serve(bed)
            command = [bed.server.agent(), "profile", "--duration", "2", "--format", "json"]
            command += ["--quiet", "--frequency", str(FREQUENCY_HZ)]
            both = json.loads(bed.server.run(command, timeout_s=PATIENCE_S).stdout)
            command += ["--pid", str(server.pid)]
            named = json.loads(bed.server.run(command, timeout_s=PATIENCE_S).stdout)
        assert named["layers"]["user"] == named["server"]["user"]
        rows = {row["pid"]: row["user_cpu_s"] for row in named["processes"]}
        assert named["layers"]["user"]["cpu_s"] == pytest.approx(rows[server.pid])
        if min(one["samples"] for one in (both, named)) < KERNEL_SAMPLES_LEAST:
            skip_or_fail("too few samples")
        if not named["categories"]["other_programs"]["share"]:
            return "the load generator is no other program"
        shares = [one["layers"]["user"]["share"] for one in (both, named)]
        return "" if shares[0] > shares[1] else f"user code of both and of one: {shares}"

    quiet.judge(measure)


def test_a_known_cost_per_frame_in_the_driver_is_measured() -> None:
    """An XDP program that computes for about 20 us a frame, in the driver of the server's veth."""

    def cost(pair: dict[str, dict[str, float]], key: str) -> float:
        return pair["spin"][key] - pair["pass"][key]

    def measure() -> str:
        with started("veth") as bed:
            # The rate is fixed, so that both programs see the same frames and batches.
            serve(bed, ("--rate", "4000"))
            command = [sys.executable, str(SPIN), bed.server.agent(), DEVICE, str(PAIRS)]
            done = bed.server.run(command, timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        known_ns = [cost(pair, "known_ns") for pair in document["pairs"]]
        found_ns = [cost(pair, "found_ns") for pair in document["pairs"]]
        errors_ns = [found - known for found, known in zip(found_ns, known_ns, strict=True)]
        error = statistics.mean(errors_ns, confidence=0.999)
        known = statistics.mean(known_ns)
        printed = (
            f"put in {known.value:.0f} ns a frame ({document['calibrated_ns']} by a test run), "
            f"found {statistics.mean(found_ns).value:.0f}, "
            f"off by {error.value:.0f} ({error.low:.0f} to {error.high:.0f})"
        )
        print(printed)
        missing = max(one["missing_share"] for pair in document["pairs"] for one in pair.values())
        if missing > MISSING_MOST:
            skip(DISTURBED, f"{missing:.0%} of the timer's samples are missing")
        if error.high - error.low > known.value:
            skip_or_fail("the interval would contain every value")
        # A sample's own time counts for the code that it interrupts, and the driver's own code has
        # more cache misses after the program.
        bias_ns = BIAS_MOST * known.value
        is_right = known.value > 5000 and error.low - bias_ns <= 0 <= error.high + bias_ns
        return "" if is_right else printed

    quiet.judge(measure)
