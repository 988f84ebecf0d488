"""An unmodified kernel and server on an emulated machine: cache misses per packet without counters.

    settings.py    what one emulation runs: scenario, caches, turns
    caches.py      the shapes of caches, as options write them
    qemu.py        the search for QEMU and the plugin, and QEMU's version
    machine.py     the emulated machine: its command line, its process, its monitor
    kernel.py      the kernel: a package unpacked, or a file; its modules
    archive.py     the guest's first file system, as the kernel unpacks it
    guest/         the guest's init and the configuration of nginx
    files.py       which files the guest has
    prepared.py    snapshots of booted guests in the cache folder
    work.py        what the guest runs after it is restored
    runs.py        one emulation: its variants, each from the snapshot
    report.py      counts to costs per packet
    replay.py      other caches for a recording
    footprint.py   a machine of the simulator from a recording
    runner.py      emulations as points of a study
    install.py     QEMU from packages of the machine's own mirrors

Everything a guest does is deterministic after its snapshot is restored. Results depend on the
snapshot, the plugin and the settings, not on the machine or its load.
"""
