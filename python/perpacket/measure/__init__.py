"""One observation of a real server: server, load and profile over the same window.

    plan.py         what one run is asked for, read from a point's parameters
    programs.py     the agent's programs on a host: their commands and their reports
    files.py        what the server serves, made before the first run and removed after the last
    peers.py        nginx and Apache as servers under test: their configuration
    process_tree.py what the kernel counts of the server's processes
    processors.py   what the kernel counts: idle processors, frames at interfaces
    summary.py      the answers of the programs as one observation
    runs.py         one run: set up, warm up, measure, take down
    runner.py       the testbed of a study
    router/         runs through a router, and its runner
    microbenches.py what memory and context switches cost here, as functions
    bench_rig.py    their runs as points of a study

Depends on `perpacket.measure.hosts`, `perpacket.traces`, `perpacket.run` and `perpacket.errors`.
Which points a study has and what they are compared with is not known here.
"""
