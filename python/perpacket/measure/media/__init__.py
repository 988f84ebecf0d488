"""One observation of a server of stored media: server, clients and profile over one window.

    plan.py       what one run is asked for, read from a point's parameters
    programs.py   the agent's programs: what they are asked
    disk.py       the media on the server's disk: made, dropped from memory, read as slowly as asked
    memory.py     how much memory the server may use, page cache included, where that can be limited
    summary.py    the answers of the programs as one observation
    runs.py       one run: forget the files, serve, play, measure, take down
    runner.py        the testbed and the media that are held while a study runs

Depends on the rest of `perpacket.measure` and on what that depends on.
"""
