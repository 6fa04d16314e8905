"""``python -m streams.cli``."""

from streams.cli import main

main()
