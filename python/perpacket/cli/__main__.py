"""`python -m perpacket.cli`, the same as `perpacket`."""

from perpacket.cli import main

main()
