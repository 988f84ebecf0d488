"""Hosts that perpacket starts programs on: this machine, and machines over ssh.

    contract.py            the interfaces of testbeds and hosts
    hosting.py             their base classes, which stop all processes
    local.py               this machine as host, and the loopback testbed
    machines.py            hosts over ssh
    process.py             a program on a host
    processor_division.py  the processors of a host, divided among programs
    record.py              finds and removes the leftovers of a killed run
    watch.py               ends a run's programs if perpacket is killed

The lab adds hosts in network namespaces.
"""
