"""Closed forms: the most that a server can do, and the most that an offload can gain.

Plain functions on numbers or numpy arrays. Each states its formula, units, source and assumptions,
and rejects inputs outside them. Depends on `perpacket.errors` and
`perpacket.analysis.statistics`.
"""
