"""Results in a notebook: tables, charts and data frames.

    simulated.py  one simulated run
    runs.py       a run of a study; two runs compared
    profiles.py   a profile that `perpacket profile --format json` wrote
    markup.py     a table as HTML without a style sheet

Every result has `to_polars()`, its numbers as a table; `plot()`, an Altair chart; and
`_repr_html_()`, which Jupyter and marimo display.
"""
