"""A tour of the library as a marimo notebook: simulate, run a study, and model a profile.

Open it with `marimo edit examples/tour.py`, or run it as a script: `python examples/tour.py`.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
def _():
    import json
    import tempfile
    from pathlib import Path

    import marimo as mo

    import perpacket

    folder = Path(tempfile.mkdtemp(prefix="perpacket-tour-"))
    return folder, json, mo, perpacket


@app.cell
def _(mo):
    mo.md("""
    # What a packet costs, in a notebook

    Every result shows itself, turns into a table with `to_polars()` and into a chart with
    `plot()`. The runs here are cut short, so that the page is there at once: leave
    `run.packets` out for the real thing.

    ## One simulated run
    """)
    return


@app.cell
def _(perpacket):
    short = [("run.warmup_packets", 10_000), ("run.packets", 30_000)]
    handoff = perpacket.simulate("W-1024-P-N-FCFS-400", overrides=short, timeline=True)
    handoff
    return (handoff,)


@app.cell
def _(handoff):
    handoff.plot()
    return


@app.cell
def _(handoff):
    handoff.plot("timeline")
    return


@app.cell
def _(mo):
    mo.md("""
    ## A study

    Factors with levels, run with several seeds: does a faster NIC make up for a small cache?
    """)
    return


@app.cell
def _(folder, perpacket):
    definition = folder / "nic-speed.toml"
    definition.write_text(
        """
        schema = 1
        name = "nic-speed"
        kind = "simulated"
        title = "The NIC's speed and the host's cache"
        question = "Which of them do requests hang on?"
        quantities = ["requests_per_s", "cycles.Stack"]
        design = "two-level"
        replications = 2

        [scenario]
        configuration = "W-1024-P-N-FCFS-400"
        "run.warmup_packets" = 10_000
        "run.packets" = 30_000

        [factors]
        "nic.mips" = [400, 800]
        "machine.l2.size_kib" = [512, 1024]
        """
    )
    run = perpacket.run_study(definition, folder / "run")
    run
    return (run,)


@app.cell
def _(run):
    run.plot(run.figures[0])
    return


@app.cell
def _(run):
    observations = run.to_polars()
    observations.select("point", "seed", "requests_per_s", "layers.tcp.cycles_per_packet")
    return (observations,)


@app.cell
def _(mo):
    mo.md("""
    ## A profile, and what offload could gain

    `perpacket profile --format json > profile.json` measures a real server; this one is made up,
    so that the notebook runs where nothing may be profiled.
    """)
    return


@app.cell
def _(folder, json, perpacket):
    shares = {"user": 0.5, "syscall": 0.1, "socket": 0.05, "tcp": 0.2, "ip": 0.05, "other": 0.1}
    layers = {name: {"share": part, "cpu_ns_per_packet": 4_000 * part}
              for name, part in shares.items()}  # fmt: skip
    (folder / "profile.json").write_text(json.dumps({"backend": "made up", "layers": layers}))
    profile = perpacket.read_profile(folder / "profile.json")
    profile
    return (profile,)


@app.cell
def _(profile):
    profile.plot("laws")
    return


@app.cell
def _(profile):
    gain = float(profile.laws(offloaded=1.0).gain)
    print(f"offload could gain {100 * gain:.0f} % at most")
    return (gain,)


if __name__ == "__main__":
    app.run()
