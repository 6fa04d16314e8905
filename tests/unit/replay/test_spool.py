"""Finished runs on disk: what is put is got, in order of ids."""

from typing import Any

from streams.replay.spool import Spool, Spooled


def spooled(run_id: str, record: bytes = b"{}", **fields: Any) -> Spooled:
    run = Spooled(run_id, b"row", record, b"a\nb", None, 0.5)
    return run._replace(**fields)


def test_what_is_put_is_got() -> None:
    """At once, after it went to disk, and the newest version of it."""
    with Spool() as spool:
        assert spool.get("a") is None
        for number in range(600):
            run = spooled(f"run-{number}", baseline="base", aggregate=0.25)
            spool.put(run)
            assert run == spool.get(run.run_id)
        assert spooled("run-0", baseline="base", aggregate=0.25) == spool.get("run-0")
        spool.put(spooled("run-0", b"newer"))
        assert spooled("run-0", b"newer") == spool.get("run-0")
        assert 600 == len(list(spool))
        assert spooled("run-0", b"newer") == spool.get("run-0")


def test_runs_come_by_id_in_bytes() -> None:
    """Not by locale, not by order of putting."""
    ids = ["b", "a", "B", "ä", "a\x00b", "a/b", "\U0001f600", "\uffff"]
    with Spool() as spool:
        for run_id in ids:
            spool.put(spooled(run_id))
        assert sorted(ids, key=str.encode) == [run.run_id for run in spool]


def test_baselines_are_those_of_runs_with_a_record() -> None:
    """A run that publishes nothing has no aggregate."""
    with Spool() as spool:
        spool.put(spooled("eval", aggregate=0.25))
        spool.put(spooled("ordinary", b"", aggregate=0.25))
        spool.put(spooled("compared", baseline="eval"))
        assert [0.25, None, None] == [
            spool.aggregate_of(run_id) for run_id in ("eval", "ordinary", "nowhere")
        ]
        assert ["compared"] == spool.with_baseline()


def test_open_runs_are_found_until_they_are_put_as_closed() -> None:
    """A few at a time, by id."""
    with Spool() as spool:
        for number in range(700):
            spool.put(spooled(f"run-{number:03d}", is_open=number % 2 == 0))
        some = spool.some_open()
        assert [f"run-{number:03d}" for number in range(0, 700, 2)] == some
        for run_id in some:
            spool.put(spooled(run_id))
        assert [] == spool.some_open()


def test_a_stranger_taken_for_a_member_is_not_found() -> None:
    """The filter may be wrong; the table is not."""
    with Spool() as spool:
        spool._members.add("ghost")
        assert spool.get("ghost") is None
