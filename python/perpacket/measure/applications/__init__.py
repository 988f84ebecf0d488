"""Real web applications as servers under test: prepared once, started at once, checked by content.

An application is a folder of `library/`: `application.toml` and the files that it names. `file`
reads it, `packages` installs what it needs, `preparation` builds its folder once and caches it,
`running` starts a copy of that folder, and `sessions` lets the agent's clients walk through its
pages.
"""
