"""Designs, replications, run directories, the executor and the driver.

Depends on `perpacket.statistics` and `perpacket.errors` alone. It knows no simulator and no
testbed: what runs is a `Runner` or a `Rig` that the study brings along. `executor` runs simulated
studies in parallel, `driver` measured ones one run at a time; `session` picks the one.
"""
