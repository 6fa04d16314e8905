"""A rehearsal by hand: three brokers, two workers, monitoring, and a worker killed.

    python -m tests.deploy.rehearsal LOG.ndjson SUITES_DIR

Publishes the log over five topics while two workers run on three brokers with
Prometheus and Alertmanager beside them, kills a worker half way, and prints
what metrics and alerts show, with the seconds since the start. Ends by holding
the newest records against the file grader's. Takes about a minute; needs Java,
Maven and what ``tests/deploy/tools.sh`` installs.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.kafka.broker import KafkaCluster
from tests.broker.worker.site import Site
from tests.broker.worker.workload import Event, Json
from tests.deploy.monitoring.stack import Stack, running_stack

HERE = Path(__file__).parent
_BEGAN_S = time.monotonic()
_WATCHED = (
    "sum(pathgate_ready)",
    'sum(up{job="pathgate"})',
    "sum(pathgate_rebalances_total)",
    "sum(pathgate_events_received_total)",
    "sum(pathgate_events_duplicate_total)",
    "sum(pathgate_trials_sealed_total)",
    "sum(pathgate_runs_finished_total)",
    "sum(pathgate_gate_changed_verdicts_total)",
)


def say(text: str) -> None:
    """Writes a line of the transcript."""
    sys.stdout.write(f"{time.monotonic() - _BEGAN_S:6.1f} s  {text}\n")
    sys.stdout.flush()


async def show(stack: Stack) -> None:
    """Prints what Prometheus knows now."""
    figures = []
    for expression in _WATCHED:
        found = await stack.query(expression)
        value = found[0]["value"][1] if found else "-"
        name = expression.removeprefix("sum(").split("{")[0].rstrip(")")
        figures.append(f"{name.removeprefix('pathgate_')}={value}")
    say("  " + "  ".join(figures))


def read_events(path: Path) -> list[Event]:
    """The log's events, in its order."""
    events = []
    for line in path.read_bytes().splitlines():
        document = json.loads(line)
        events.append(Event(document["runId"], document["type"], line))
    return events


def read_suites(path: Path) -> list[Json]:
    """The documents of a directory of suites."""
    return [json.loads(file.read_bytes()) for file in sorted(path.glob("*.json"))]


async def rehearse(log: Path, suites: Path) -> int:
    """Runs the rehearsal; 0 if the records are the file grader's."""
    tools = await asyncio.to_thread(
        subprocess.run,
        [str(HERE / "tools.sh")],
        capture_output=True,
        text=True,
        check=True,
    )
    documents = read_suites(suites)
    events = read_events(log)
    with tempfile.TemporaryDirectory(prefix="pathgate-rehearsal-") as folder:
        home = Path(folder)
        cluster = KafkaCluster(brokers=3)
        await asyncio.to_thread(cluster.start)
        say(f"three brokers: {cluster.bootstrap}")
        try:
            site = Site(
                cluster.bootstrap,
                "rehearsal",
                home,
                suites=documents,
                replication_factor=3,
                min_insync_replicas=2,
            )
            async with site:
                return await _follow(site, events, Path(tools.stdout.strip()), home)
        finally:
            await asyncio.to_thread(cluster.stop, kill=True)


async def _follow(site: Site, events: Sequence[Event], tools: Path, home: Path) -> int:
    first, second = site.start_worker("w1"), site.start_worker("w2")
    await asyncio.gather(first.ready(), second.ready())
    say("two workers are ready")
    scratch = home / "stack"
    scratch.mkdir()
    async with running_stack(tools, scratch, [first.address, second.address]) as stack:
        await stack.until_query('sum(up{job="pathgate"}) == 2')
        await show(stack)
        half = len(events) // 2
        async with site.host() as host:
            await host.run(list(events[:half]))
            say(f"{half} events published")
            await show(stack)
            await first.kill()
            say("worker w1 killed (SIGKILL)")
            await host.run(list(events[half:]))
            say(f"{len(events)} events published")
        await site.settles(site.expected(events), 90, fence=False)
        say("the newest records are the file grader's, byte for byte")
        for _ in range(4):
            await show(stack)
            await asyncio.sleep(3)
        down = await stack.webhook.until("PathgateDown", "oncall")
        say(f"alert {down.name} at oncall: {down.labels['instance']}")
        changed = await stack.webhook.until("PathgateGateChangedVerdict", "eval-owners")
        say(f"alert {changed.name}: {changed.annotations['description']}")
        names = sorted({one.name for one in stack.webhook.notified})
        say(f"all notified: {', '.join(names)}")
        run_id = events[0].run_id
        kinds = sorted(set(site.published.alert_kinds(run_id)))
        say(f"records on eval.gate-alert: {', '.join(kinds)}")
        summary = site.published.summaries(run_id)[-1]["summary"]
        say(
            f"aggregateScore {summary['aggregateScore']}, gatedAggregateScore"
            f" {summary['gatedAggregateScore']}, passed {summary['passed']},"
            f" {summary['passedCount']} of {summary['taskCount']} tasks"
        )
    code = await second.stop()
    say(f"worker w2 stopped with {code}")
    if code:
        sys.stderr.write(second.text()[-4000:])
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(rehearse(Path(sys.argv[1]), Path(sys.argv[2]))))
