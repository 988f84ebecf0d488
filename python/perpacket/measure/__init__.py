"""Measurement of a running server: the agent, one profile after another, and hosts.

hosts/        this machine and machines over ssh
agent.py      the search for the agent
live.py       one profile after another, for `top`
cpu_lists.py  lists of processors as the kernel writes them
"""
