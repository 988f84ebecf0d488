"""Closed forms: bounds of a server's throughput, the cost of cache misses, the gain by offload.

The functions work on numbers or numpy arrays. Each states its formula, units, source and
assumptions, and rejects inputs that violate the assumptions. This package depends on
`perpacket.errors` and `perpacket.analysis.statistics`.
"""
