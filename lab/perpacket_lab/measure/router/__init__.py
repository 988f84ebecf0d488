"""A router under test: bulk TCP through it, and the search for its highest rate without loss.

plan.py      the parameters of a run, and the sender and receiver of each flow
machines.py  the router and its hosts over ssh
rip.py       routes that a daemon at each host and at the router spread
runs.py      one run: the plane, the flows or the search, the profile
summary.py   the reports as one observation
runner.py    the router and its hosts during a study; first, `route check` tests the router
"""
