"""One observation of a real server: server, load and profile over the same window.

    hosts/               this machine, network namespaces, a router among them, machines over ssh
    web/                 web servers and the bulk sender: plan, files, runs, summary, runner
    media/               servers of stored media, with their disk and their memory
    router/              runs through a router
    bench/               what memory and context switches cost this machine
    agent.py             where the agent is
    programs.py          the agent's programs on a host: their commands and their reports
    active_setup.py      the setup of a study, which its runs share
    process_tree.py      what the kernel counts of the server's processes
    processor_counts.py  what the kernel counts of processors and interfaces
    live.py              one profile after another, for `top`

Depends on `perpacket.study`, `perpacket.run`, `perpacket.traces` and `perpacket.errors`. It does
not know which points a study has and what they are compared with.
"""
