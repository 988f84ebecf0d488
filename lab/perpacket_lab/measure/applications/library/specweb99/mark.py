"""Begin each file of a file set with its name, so that a client can check the answer."""

import sys
from pathlib import Path

for file in Path(sys.argv[1]).glob("dir*/class*"):
    with file.open("r+b") as content:
        content.write(f"{file.parent.name}/{file.name}\n".encode())
