"""A record and a stored row falsified by hand are found, and mended."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from streams.agents.control import Control, ControlKind, control_record
from streams.core.evidence import Call
from streams.core.rows import decode_row, encode_row
from streams.kafka import client_options, open_reader
from streams.tables import run_key
from streams.verify import Fault, Verified
from tests.broker.worker.site import Site
from tests.broker.worker.workload import GATED, RunLog, gated_run

pytestmark = [pytest.mark.asyncio, pytest.mark.kafka]

MakeSite = Callable[..., Awaitable[Site]]


def faults(found: Verified) -> set[tuple[str, Fault]]:
    """The runs that differ, and in what."""
    return {(finding.run_id, finding.fault) for finding in found.findings}


@dataclass
class Graded:
    """A site whose two runs are graded: one clean, one with a forbidden call."""

    site: Site
    clean: RunLog
    forbidden: RunLog


async def graded(make_site: MakeSite) -> Graded:
    site = await make_site(suites=[GATED])
    await site.worker()
    clean = gated_run("acme/run-0000000000000001")
    forbidden = gated_run("acme/run-0000000000000002", "search", "wire_money")
    await site.publish(clean.log, forbidden.log)
    await site.settles(site.expected([*clean.log, *forbidden.log]), fence=False)
    return Graded(site, clean, forbidden)


async def test_what_agrees_is_left_alone(make_site: MakeSite) -> None:
    """Two runs, nothing falsified: nothing found, nothing asked for."""
    made = await graded(make_site)
    found = await made.site.verified(repair=True)
    assert (2, (), 0) == (found.runs, found.findings, found.repairs)


async def test_falsified_record_is_found_and_mended(make_site: MakeSite) -> None:
    """A closed run is written over as a pass; the repair writes the truth again."""
    made = await graded(make_site)
    site, run_id = made.site, made.forbidden.run_id
    truth = site.published.suites[run_id]
    assert truth is not None
    lie = truth.replace(b'"passed":false', b'"passed":true')
    assert lie != truth
    async with site.host() as host:
        await host.producer.send_and_wait(
            site.names.suite_summary, lie, run_id.encode(), site.home_of(run_id)
        )
    assert {(run_id, Fault.SUITE_RECORD)} == faults(await site.verified())

    assert 1 == (await site.verified(repair=True)).repairs
    await site.published.wait_for(
        lambda seen: len(seen.history(run_id)) >= 3 and seen.suites[run_id] == truth
    )
    assert set() == faults(await site.verified())


async def test_falsified_row_is_found_and_mended(make_site: MakeSite) -> None:
    """The forbidden call is taken out of a stored row, as an old state would be.

    The worker is restarted on an empty directory, so that it believes the row.
    """
    made = await graded(make_site)
    site, run_id = made.site, made.forbidden.run_id
    await site.commits_all()
    assert 0 == await site.workers[0].stop()
    row = decode_row(await newest_row(site, run_id))
    kept = [
        fact
        for fact in row.tail
        if not (isinstance(fact, Call) and fact.tool == "wire_money")
    ]
    assert len(kept) == len(row.tail) - 1
    async with site.host() as host:
        await host.producer.send_and_wait(
            site.names.runs_changelog,
            encode_row(msgspec.structs.replace(row, tail=kept)),
            run_key(run_id),
            site.home_of(run_id),
        )
    await site.worker("w2")
    assert {(run_id, Fault.STATE_ROW)} == faults(await site.verified())

    assert 1 == (await site.verified(repair=True)).repairs
    # Written anew with the rebuilt state: a further revision of the same bytes.
    await site.published.wait_for(lambda seen: len(seen.history(run_id)) >= 2)
    await site.commits_all()
    assert set() == faults(await site.verified())
    rebuilt = decode_row(await newest_row(site, run_id))
    assert "wire_money" in [f.tool for f in rebuilt.tail if isinstance(f, Call)]


async def newest_row(site: Site, run_id: str) -> bytes:
    """The run's newest row in the changelog."""
    place = (site.names.runs_changelog, site.home_of(run_id))
    found = b""
    async with open_reader(site.settings) as reader:
        async for _, records in reader.read(await reader.span([place])):
            for record in records:
                if record.key == run_key(run_id):
                    found = record.value or b""
    return found


async def test_rebuild_forgives_nothing_that_a_topic_forgot(
    make_site: MakeSite,
) -> None:
    """Retention took the calls, not the start; a rebuild is asked for by note.

    The record is written again, with the forbidden call still in it.
    """
    made = await graded(make_site)
    site, run_id = made.site, made.forbidden.run_id
    truth = site.published.suites[run_id]
    place = TopicPartition(site.names.tool_called, site.home_of(run_id))
    admin = AIOKafkaAdminClient(**client_options(site.settings))
    await admin.start()
    try:
        await admin.delete_records({place: RecordsToDelete(-1)})
    finally:
        await admin.close()

    note = Control(kind=ControlKind.REBUILD, run_id=run_id)
    asked = control_record(note, site.settings, site.names)
    async with site.host() as host:
        await host.producer.send_and_wait(
            asked.topic, asked.value, asked.key, asked.partition
        )
    await site.published.wait_for(lambda seen: len(seen.history(run_id)) >= 2)
    assert site.published.suites[run_id] == truth
