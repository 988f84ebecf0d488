"""The functions of `import perpacket` that need no lab: profile, advise, trial, compare.

The verbs of the command line call these functions, and print what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from perpacket import lab
from perpacket.advise.trial import Plan
from perpacket.analysis import profile_comparison
from perpacket.analysis.profile_comparison import Unit
from perpacket.analysis.ratios import RatioRule
from perpacket.profile_document import ProfileDocument
from perpacket.results import (
    AdviceResult,
    MeasuredProfile,
    ProfileDifference,
    Result,
    TrialResult,
)

THIS_MACHINE = "this machine"


def profile(
    duration_s: float = 5.0,
    *,
    pid: int | None = None,
    requests: str = "",
    **options: object,
) -> MeasuredProfile:
    """Profile this machine: the cost of a packet, layer by layer.

    `pid` is the process of the server, whose user code then has a layer of its own. `requests` is
    the URL at which the server reports its requests. `options` are further options of
    `perpacket profile`, such as `taxonomy="modules"`. Raises `MachineLacks` without the rights of
    perf.
    """
    from perpacket.measure import live

    named = {name.replace("_", "-"): value for name, value in options.items()}
    own = {"duration": duration_s, "pid": pid, "requests": requests}
    document = live.once(own | named)
    return MeasuredProfile(ProfileDocument.parse(document, THIS_MACHINE), THIS_MACHINE)


def advise(
    duration_s: float = 5.0,
    *,
    pid: int | None = None,
    interface: str = "",
    requests: str = "",
    profile: str | Path | None = None,
    folded: str | Path | None = None,
    files: Sequence[str | Path] = (),
) -> AdviceResult:
    """List the changes that could make packets cheaper here; changes nothing.

    Measures for `duration_s` seconds, or uses the file `profile` of `perpacket profile --format
    json`, with its call chains in the file `folded`. Or uses `files` of another machine: a profile
    or a recording, and texts of counters and settings. Then nothing of this machine is read.
    """
    from perpacket.advise import advice, case, observation
    from perpacket.advise import profile as profiles

    if files:
        seen = case.read([Path(file) for file in files]).observation(interface)
    elif profile is None:
        seen = observation.observe(duration_s, pid, interface, requests)
    else:
        chains = None if folded is None else Path(folded)
        seen = observation.of_profile(profiles.read(Path(profile), chains), pid, interface)
    return AdviceResult(advice.advise(seen))


def trial(
    *changes: str,
    plan: Plan | None = None,
    on_progress: Callable[[str, float], None] = lambda text, share: None,
) -> TrialResult:
    """Try changes such as `gro=on` on live traffic, in interleaved windows, and undo them.

    `plan` has the server, the load and the windows; by default the traffic that exists.
    `on_progress` gets a sentence on the results so far, and the finished share. Every setting is
    restored at the end.
    """
    from dataclasses import replace

    from perpacket.advise import trial as trials

    plan = plan or Plan()
    return TrialResult(trials.run(replace(plan, changes=plan.changes + changes), on_progress))


def compare(
    first: Result | str | Path, second: Result | str | Path, quantities: Sequence[str] = ()
) -> Result:
    """Compare two profiles, or two runs of studies: the ratio of each cost, with its interval.

    A profile is a file of `perpacket profile --format json` or a result of `profile`. A run is its
    directory or a result of `run_study`; `quantities` selects what is compared.
    """
    if is_profile(first) and is_profile(second):
        return compare_profiles(first, second)
    difference: Result = lab.load("api", "compare").compare_runs(first, second, quantities)
    return difference


def is_profile(side: Result | str | Path) -> bool:
    """Whether a side of a comparison is a profile; otherwise it is a run."""
    if isinstance(side, str | Path):
        return not Path(side).is_dir()
    return isinstance(side, MeasuredProfile)


def compare_profiles(
    first: Result | str | Path,
    second: Result | str | Path,
    *,
    unit: Unit = Unit.PACKET,
    paired: bool = False,
    rules: Sequence[RatioRule] = (),
) -> ProfileDifference:
    """Compare two profiles; arguments and errors are those of `profile_comparison.compare`."""
    sides = [windows_of(side) for side in (first, second)]
    return ProfileDifference(
        profile_comparison.compare(*sides, unit=unit, paired=paired, rules=rules)
    )


def windows_of(side: Result | str | Path) -> Sequence[ProfileDocument]:
    """The windows of a profile."""
    if isinstance(side, MeasuredProfile):
        return [side.profile]
    assert isinstance(side, str | Path)
    from perpacket.advise import case

    path = Path(side)
    if case.is_archive(path):
        return [ProfileDocument.parse(case.read([path]).stacks(path).document, str(path))]
    return profile_comparison.read(path)
