"""Closed forms: bounds of a server's throughput, the cost of cache misses, the gain by offload.

Plain functions on numbers or numpy arrays. Each states its formula, units, source and assumptions,
and rejects other inputs. Depends on `perpacket.errors` and `perpacket.analysis.statistics`.
"""
