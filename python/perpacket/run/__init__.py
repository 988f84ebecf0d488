"""Carries studies out: run directories, simulated runs in parallel, measured runs one by one.

It knows no simulator and no hosts: what runs is a `Runner` or a `MeasuredRunner` of the study.
`simulated_runs` runs simulated studies in parallel, `measured_runs` runs measured ones one at a
time, `start` picks between them.
"""
