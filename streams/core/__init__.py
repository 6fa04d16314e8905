"""The pure core: no clock, no I/O, no Faust."""
