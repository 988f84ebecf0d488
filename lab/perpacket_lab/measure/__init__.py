"""One observation of a real server: server, load and profile over the same window.

    hosts/               network namespaces, a router among them; others in `perpacket`
    web/                 web servers and the bulk sender
    media/               servers of stored media, with their disk and their memory
    router/              runs through a router
    bench/               benchmarks of this machine's memory and context switches
    plan.py              the parameters that runs share
    measured_run.py      the parts of a run that all kinds share: programs, warm-up, window
    summary.py           the parts of an observation that all kinds share
    host_runner.py       the setup of a study, and the facts about its hosts
    programs.py          the profile on a host, and the reports of the agent's programs
    host_files.py        files and folders on a host
    process_tree.py      the kernel's counts of the server's processes
    processor_counts.py  the kernel's counts of processors and interfaces

This package does not depend on the points of a study or on the comparison of its results.
"""
