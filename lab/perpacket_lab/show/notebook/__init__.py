"""Results in a notebook: tables, charts and data frames.

    simulated.py      one simulated run
    emulated.py       an emulation
    study_results.py  a run of a study; two runs compared

Every result has `to_polars()`, its numbers as a table; `plot()`, an Altair chart; and
`_repr_html_()`, which Jupyter and marimo display.
"""
