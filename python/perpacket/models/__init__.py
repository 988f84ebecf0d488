"""Closed forms: what a server could do at most, and what an offload can gain at most.

Plain functions on numbers or numpy arrays. Each states its formula, units, source and assumptions,
and refuses inputs outside them. Depends on `perpacket.errors` and
`perpacket.analysis.statistics`.
"""
