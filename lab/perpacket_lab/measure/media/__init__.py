"""Measured runs of media servers: server, clients and profile over one window.

    media_plan.py      the parameters of a run
    media_programs.py  the commands of the agent, and of other servers
    gstreamer.py       GStreamer's RTSP server; gstreamer_server.py is its program
    disk.py            the media on the server's disk: made, dropped from memory, read with a delay
    memory.py          the limit of the server's memory, page cache included
    media_summary.py   the reports of the programs as one observation
    media_run.py       one run
    media_runner.py    the testbed and the media of a study

Depends on the rest of `perpacket.measure` and its dependencies.
"""
