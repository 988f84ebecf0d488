"""Real web applications as servers under test.

An application is a folder of `library/`: `application.toml` and the files that it names.

    application_file.py  reads that file
    packages.py          installs the packages
    preparation.py       builds the application's folder once, and caches it
    running.py           starts a copy of that folder, with its programs
    folder.py            the files and programs in a folder
    sessions.py          sends the agent's clients through the pages, and checks every answer
"""
