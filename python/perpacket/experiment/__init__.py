"""Designs, replications, run directories and the executor.

Depends on `perpacket.statistics` and `perpacket.errors` alone. It knows no simulator: what runs is
a `Runner` that the study brings along.
"""
