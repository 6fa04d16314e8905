"""A bare aiokafka consumer: reads everything, looks at nothing.

The limit of what any contestant on aiokafka could reach.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.benchmarks.job import Job, read_job, say


async def drain(job: Job) -> None:
    """Reads as many records as the sources hold, and says when."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=4 * 1024 * 1024,
    )
    await consumer.start()
    try:
        consumer.assign(
            [
                TopicPartition(topic, number)
                for topic in sorted(set(job.sources.values()))
                for number in range(job.partitions)
            ]
        )
        left = job.events
        while left > 0:
            fetched = await consumer.getmany(timeout_ms=500, max_records=2000)
            if left == job.events and fetched:
                say("first")
            left -= sum(map(len, fetched.values()))
        say("done")
    finally:
        await consumer.stop()


if __name__ == "__main__":
    asyncio.run(drain(read_job()))
