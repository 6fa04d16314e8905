"""How Python's collector of cycles is set for grading."""

import gc

GC_ALLOCATIONS = 50_000


def tune_collector() -> None:
    """Has the collector look rarely, and never at what is loaded by now.

    Most objects live as long as their run: the defaults would walk all runs in
    memory every few thousand allocations, a quarter of the worker's time.
    """
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 20, 50)
