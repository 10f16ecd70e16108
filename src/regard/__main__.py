"""Runs the command line with `python -m regard`."""

from regard.cli import main

main()
