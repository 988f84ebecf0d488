"""Runs studies and stores their observations in run directories.

`start` starts and resumes studies, `simulated_runs` runs simulations in parallel, `measured_runs`
runs measurements one at a time. This package depends on no simulator and no hosts: it runs what a
`Runner` or `MeasuredRunner` of the study prepares.
"""
