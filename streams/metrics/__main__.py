"""Prints the catalogue as a Markdown table: ``python -m streams.metrics``."""

import sys

from streams.metrics.catalogue import markdown_table

sys.stdout.write(markdown_table())
