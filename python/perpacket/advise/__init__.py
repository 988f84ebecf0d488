"""Changes that could make this machine's packets cheaper: advice on them, and trials of them.

    changes/        the catalogue: a TOML file for each change
    catalogue.py    the catalogue, read and checked
    expression.py   the expressions in which changes state their evidence and bounds
    facts.py        the numbers and settings that expressions use
    counters.py     counters of the kernel at a moment
    kernel_texts.py  the texts in which the kernel and its tools print counters
    growth.py       how much counters grew
    tool_texts.py   the output of ethtool, tc, ip, sysctl and netstat
    processor_texts.py  the output of mpstat, top, sar, vmstat and cpupower
    socket_texts.py  the output of ss, and files of /proc about sockets
    log_texts.py    messages of the kernel and of servers
    config_texts.py  the configuration of nginx, HAProxy and Envoy
    pasted.py       the outputs of several commands in one text
    texts.py        the facts of the texts of one moment
    case.py         the facts of another machine, from files
    resource_facts.py  facts about tables, sockets, system calls and programs
    receiving_facts.py  facts about the processors that receive
    limit.py        what limits the traffic, in the order of the reasons
    limit_kinds.py  the kinds of limits
    limit_interfaces.py  limits of interfaces: allowances, offloads, links, shapers, rings
    limit_tables.py  limits of tables, memory and queues that all share
    limit_sources.py  the files that show whether there is such a limit
    observation.py  the sources of facts: a profile, the kernel's counters around it, the server
    profile.py      a profile with its call chains
    links.py        the interfaces of a network namespace
    servers.py      nginx or `serve web` behind a process, and its options
    server_processes.py  options of other servers from their processes
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
