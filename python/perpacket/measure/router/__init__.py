"""A router under test: bulk TCP through it, and the search for what it carries without loss.

plan.py      what one run is asked for, and which host sends to which
runs.py      one run: the plane, the flows or the search, the profile
summary.py   the answers as one observation
runner.py       the router and its hosts, held while a study runs, and held to the rules first
"""
