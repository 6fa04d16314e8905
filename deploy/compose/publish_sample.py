"""Publishes the demo's runs to the event topics, as a host would.

Brokers, topics and credentials are those of the ``PATHGATE_*`` variables. Each event
is acknowledged before the next is sent, which is what pathgate asks of hosts::

    PATHGATE_BOOTSTRAP_SERVERS=127.0.0.1:9092 python deploy/compose/publish_sample.py
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from importlib.resources import files

from aiokafka import AIOKafkaProducer

from streams.kafka import client_options
from streams.settings import Settings
from streams.topics import TopicNames, names_from


def routed(names: TopicNames) -> Iterator[tuple[str, bytes, bytes]]:
    """Topic, key and value of each event of the sample, in the order of its file."""
    topics = {
        "agent.tool-called": names.tool_called,
        "eval.started": names.eval_started,
        "eval.scored": names.eval_scored,
        "eval.completed": names.eval_completed,
        "run.completed": names.run_terminal,
        "run.failed": names.run_terminal,
        "run.cancelled": names.run_terminal,
    }
    sample = files("streams") / "sample" / "runs.ndjson"
    for line in sample.read_bytes().splitlines():
        event = json.loads(line)
        if event["type"] in topics:
            yield topics[event["type"]], event["runId"].encode(), line


async def publish(settings: Settings) -> int:
    """Sends every event; returns how many."""
    producer = AIOKafkaProducer(**client_options(settings), acks="all")
    await producer.start()
    try:
        count = 0
        for topic, key, value in routed(names_from(settings)):
            await producer.send_and_wait(topic, value, key=key)
            count += 1
    finally:
        await producer.stop()
    return count


if __name__ == "__main__":
    sent = asyncio.run(publish(Settings.load({}, os.environ)))
    sys.stderr.write(f"published {sent} events of the demo's runs\n")
