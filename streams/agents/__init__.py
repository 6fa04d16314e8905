"""Decode, call the core, write, send: what a worker does with its partitions."""
