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
    # The cost of a packet, in a notebook

    A notebook displays every result. `to_polars()` returns a result as a table, `plot()` as a
    chart. The runs here are short, so that the page appears soon. For runs of full length, omit
    `short`.

    ## One simulated run
    """)
    return


@app.cell
def _(perpacket):
    short = {"run.warmup_packets": 10_000, "run.packets": 30_000}
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

    A study runs each combination of its factors' levels with several seeds. This one asks which has
    more effect: a faster NIC or a larger cache.
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
        question = "Which of them affects requests a second more?"
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
    ## A profile, and the gain of offload

    `perpacket profile --format json > profile.json` measures a real server. The profile below is
    invented, so that the notebook also runs on machines that permit no profiling.
    """)
    return


@app.cell
def _(folder, json, perpacket):
    shares = {"user": 0.5, "syscall": 0.1, "socket": 0.05, "tcp": 0.2, "ip": 0.05, "other": 0.1}
    layers = {name: {"share": part, "cpu_ns_per_packet": 4_000 * part}
              for name, part in shares.items()}  # fmt: skip
    (folder / "profile.json").write_text(json.dumps({"backend": "invented", "layers": layers}))
    profile = perpacket.read_profile(folder / "profile.json")
    profile
    return (profile,)


@app.cell
def _(profile):
    profile.plot("laws")
    return


@app.cell
def _(profile):
    gain = profile.gain(offloaded=1.0)
    print(f"the gain of offload is at most {100 * gain:.0f} %")
    return (gain,)


if __name__ == "__main__":
    app.run()
