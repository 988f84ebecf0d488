"""Changes that could make this machine's packets cheaper: advice on them, and trials of them.

    changes/        the catalogue: a TOML file for each change
    catalogue.py    the catalogue, read and checked
    expression.py   the expressions in which changes state their evidence and bounds
    facts.py        the numbers and settings that expressions use
    counters.py     counters of the kernel at a moment
    kernel_texts.py  the texts in which the kernel and its tools print counters
    growth.py       how much counters grew
    tool_texts.py   the output of ethtool, tc, ip, sysctl and netstat
    case.py         the facts of another machine, from files
    capture.sh      the shell script that makes a case
    limit.py        what limits the traffic
    observation.py  the sources of facts: a profile, the kernel's counters around it, the server
    profile.py      a profile with its call chains
    links.py        the interfaces of a network namespace
    servers.py      the server behind a process, and its options
    listening.py    the address at which a server listens
    bounds.py       the share of processor time that a change can remove
    glance.py       the change most worth trying, found while another verb runs or after it
    advice.py       the changes that apply, ranked, and those that do not, with reasons
    network_scope.py  a network namespace and an interface in it
    settings/       settings that can be read and written: a file for each kind
    journal.py      the settings that a trial changes, stored before it changes them
    crashed.py      the settings that a killed trial left changed, for `perpacket doctor`
    guardian.py     the process that undoes a trial whose own process has ended
    trial.py        changes measured in interleaved windows and undone
    guards.py       the signs that a change harms the users, which end a trial
    windows.py      the order of windows, and the measurement of one
    effect.py       the effect of a change, from its windows
    twin.py         a second server with one option changed
    added.py        known costs that a trial adds at a layer
    slope.py        the effect of one nanosecond more per packet in a layer

Advice changes nothing. This package prints nothing: `show/` renders and `cli/` prints.
"""
