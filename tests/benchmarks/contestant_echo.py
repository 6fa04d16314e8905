"""A bare aiokafka echo: reads what a worker reads, sends the scores back.

The limit of the latency that anything on aiokafka could reach.
"""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.benchmarks.job import Job, read_job, say


async def echo(job: Job) -> None:
    """Runs until it is killed."""
    scores = job.sources["eval_scored"]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap, enable_auto_commit=False
    )
    producer = AIOKafkaProducer(bootstrap_servers=job.bootstrap, acks="all")
    async with consumer, producer:
        tps = [
            TopicPartition(topic, number)
            for topic in sorted(set(job.sources.values()))
            for number in range(job.partitions)
        ]
        consumer.assign(tps)
        await consumer.seek_to_beginning(*tps)
        say("ready")
        async for record in consumer:
            if record.topic == scores:
                await producer.send(job.task_summary, record.value, record.key)


if __name__ == "__main__":
    asyncio.run(echo(read_job()))
