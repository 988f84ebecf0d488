"""Results as a notebook shows them: tables of themselves, charts, and frames to go on with.

    simulated.py  one simulated run
    runs.py       a run of a study; two runs beside each other
    profiles.py   a profile that `perpacket profile --format json` wrote
    markup.py     a table as HTML that needs no style sheet

Every result has `to_polars()`, its numbers as a table; `plot()`, an Altair chart; and
`_repr_html_()`, what Jupyter and marimo show of it. Depends on the simulation, the studies, the
models and the report; the command line does without it.
"""
