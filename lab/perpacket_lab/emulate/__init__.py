"""An unmodified kernel and server on an emulated machine: cache misses per packet without counters.

    settings.py    the settings of an emulation: scenario, caches, turns
    caches.py      the shapes of caches, as options write them
    qemu.py        the search for QEMU and the plugin, and QEMU's version
    machine.py     the emulated machine: its command line, its process, its monitor
    self_test.py   a guest with known counts, to check QEMU and the plugin
    kernel.py      the kernel: a package unpacked, or a file; its modules
    debian_kernels.py  kernels of Debian's suites by their versions
    kernel_options.py  the options of a kernel that change the cost of packets
    archive.py     the guest's initial file system, an archive that the kernel unpacks
    guest/         the guest's init, the configuration of nginx, and the guest of the self-test
    files.py       the files of the guest
    server_root.py    the root of a server: a folder, or the tar of an image
    guest_changes.py  changes of the catalogue in the guest
    prepared.py    snapshots of booted guests in the cache folder
    work.py        the script that a restored guest runs
    datagrams.py   the scripts of scenarios of datagrams
    runs.py        one emulation: the runs of its variants from the snapshot
    user_functions.py the functions of a server, from mappings and symbols
    report.py      converts counts into costs per packet
    replay.py      counts the misses of other caches on a recording
    footprint.py   makes a machine of the simulator from a recording
    runner.py      emulations as points of a study
    install.py     installs QEMU from packages of the machine's mirrors

A guest is deterministic after its snapshot is restored. Results depend on the snapshot, the plugin
and the settings, but not on the machine or its load.
"""
