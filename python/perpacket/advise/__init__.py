"""What would make this machine's packets cheaper: changes, their evidence and bounds, and trials.

    changes/        the catalogue: a TOML file for each change
    catalogue.py    the catalogue, read and checked
    expression.py   the expressions in which changes state their evidence and bounds
    facts.py        the numbers and settings that expressions use
    observation.py  what facts come from: a profile, the kernel's counters around it, the server
    profile.py      a profile with its call chains
    links.py        the interfaces of a network namespace
    servers.py      the server behind a process, and its options
    bounds.py       the share of processor time that a change can remove
    of_run.py       advice on the points of a measured run
    glance.py       the change most worth trying, beside or after another verb
    advice.py       the changes that apply, ranked, and those that do not, with reasons
    place.py        a network namespace and an interface in it
    settings/       what can be read and written: a file for each kind of setting
    journal.py      what a trial changes, stored before it is changed
    guardian.py     the process that undoes a trial whose own process has ended
    trial.py        changes measured in interleaved windows and undone

Advice changes nothing. Nothing here prints: `show/` renders and `cli/` prints.
"""
