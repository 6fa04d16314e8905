"""Internals of Faust, mode and aiokafka that streams.ingest is written against.

A red test here says that code moved on which the batched consumer leans, or the
unpacking in streams.kafka. Read it again with the reason beside the name in mind,
revise these if need be, run tests/broker/ingest, and only then write the new hash
here.
"""

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import faust
import pytest
from faust.types import TP, ConsumerMessage

CONSUMER = "faust.transport.consumer"
DRIVER = "faust.transport.drivers.aiokafka"
FETCHER = "aiokafka.consumer.fetcher"
STATE = "aiokafka.consumer.subscription_state"
COORDINATOR = "aiokafka.consumer.group_coordinator"

# Module and name -> first half of the source's hash, and what is relied on.
PINS: Mapping[tuple[str, str], tuple[str, str]] = {
    (CONSUMER, "Consumer.__init__"): (
        "302410d59e69",
        "attributes of commits and flow; called with the transport first",
    ),
    (CONSUMER, "Consumer.perform_seek"): (
        "0e8c130ff4b0",
        "asks seek_to_committed and keeps its answer; called after each rebalance",
    ),
    (CONSUMER, "Consumer.seek"): (
        "b86a9fe05f95",
        "calls _seek",
    ),
    (CONSUMER, "Consumer.stop_flow"): (
        "cf7e875a2b0d",
        "flow_active says whether to hand out",
    ),
    (CONSUMER, "Consumer.resume_flow"): (
        "db59630f25b5",
        "flow_active says whether to hand out",
    ),
    (CONSUMER, "Consumer.pause_partitions"): (
        "27a1c94bdacd",
        "takes partitions out of _active_partitions",
    ),
    (CONSUMER, "Consumer.resume_partitions"): (
        "afe6b7c02a41",
        "puts partitions into _active_partitions",
    ),
    (CONSUMER, "Consumer._set_active_tps"): (
        "401f4dc88319",
        "changes _active_partitions in place, of TP",
    ),
    (CONSUMER, "Consumer.on_partitions_revoked"): (
        "d04b7ae72c6f",
        "forgets acknowledgements; then the app's callback",
    ),
    (CONSUMER, "Consumer.on_partitions_assigned"): (
        "29ce96596f05",
        "fills _active_partitions before anything is read",
    ),
    (CONSUMER, "Consumer.getmany"): (
        "4b168d84882a",
        "other topics: drops what comes while the flow is stopped, and seeks",
    ),
    (CONSUMER, "Consumer._wait_next_records"): (
        "6218e1969a63",
        "other topics: calls _getmany with the live set of partitions",
    ),
    (CONSUMER, "Consumer.track_message"): (
        "217d7f1399a4",
        "what wait_empty waits for",
    ),
    (CONSUMER, "Consumer.ack"): (
        "5fcf41cf4515",
        "what an acknowledgement has to do, under ack_lock",
    ),
    (CONSUMER, "Consumer.wait_empty"): (
        "e4662fe24f09",
        "waits for _unacked_messages, only where stream_wait_empty is set",
    ),
    (CONSUMER, "Consumer.on_stop"): (
        "45b1d2210ce2",
        "the last commit",
    ),
    (CONSUMER, "Consumer._commit_handler.fun"): (
        "4e5da5df0730",
        "an error of a commit crashes the consumer",
    ),
    (CONSUMER, "Consumer.commit"): (
        "a354437baaa0",
        "one commit at a time",
    ),
    (CONSUMER, "Consumer.force_commit"): (
        "cc094614d22c",
        "offers _filter_tps_with_pending_acks to _commit_tps",
    ),
    (CONSUMER, "Consumer._commit_tps"): (
        "a20e230b05ae",
        "draws offsets up, then _handle_attached, then _commit_offsets",
    ),
    (CONSUMER, "Consumer._filter_committable_offsets"): (
        "dc5e9baf5d99",
        "asks _new_offset and _should_commit",
    ),
    (CONSUMER, "Consumer._handle_attached"): (
        "48efe89d6c63",
        "is awaited between drawing up and committing",
    ),
    (CONSUMER, "Consumer._commit_offsets"): (
        "1a6979904118",
        "flushes the producer; True only where the broker took them",
    ),
    (CONSUMER, "Consumer._filter_tps_with_pending_acks"): (
        "f6f923977423",
        "reads _acked, where a stream that acknowledges by itself shows",
    ),
    (CONSUMER, "Consumer._should_commit"): (
        "5ce941793947",
        "other topics",
    ),
    (CONSUMER, "Consumer._new_offset"): (
        "1d2c7ea89a7a",
        "other topics",
    ),
    (CONSUMER, "Consumer._drain_messages"): (
        "44a2500309e8",
        "other topics; how it ends at a stop",
    ),
    (CONSUMER, "Fetcher"): (
        "c922e4ab78d9",
        "runs _drain_messages of the app's consumer in a task",
    ),
    (CONSUMER, "ConsumerThread.on_partitions_revoked"): (
        "c44013f1259c",
        "runs in the thread, before the app hears of it",
    ),
    (CONSUMER, "ThreadDelegateConsumer"): (
        "a1b934b198fa",
        "makes its thread in __init__, by _new_consumer_thread",
    ),
    (DRIVER, "ConsumerRebalanceListener"): (
        "f3d04f29dfb3",
        "the thread hears first, and sets consumer_generation_id",
    ),
    (DRIVER, "Consumer"): (
        "959f899e8ebf",
        "nothing else is overridden between ThreadDelegateConsumer and this",
    ),
    (DRIVER, "AIOKafkaConsumerThread.__post_init__"): (
        "913dc7c0d957",
        "called by __init__, after consumer and transport are set",
    ),
    (DRIVER, "AIOKafkaConsumerThread.on_start"): (
        "38b4e8bd1e10",
        "starts what _create_worker_consumer made",
    ),
    (DRIVER, "AIOKafkaConsumerThread.on_thread_stop"): (
        "8dfc004e258b",
        "stops aiokafka",
    ),
    (DRIVER, "AIOKafkaConsumerThread._create_worker_consumer"): (
        "c2701bfc3e6f",
        "settings that are changed before the consumer starts",
    ),
    (DRIVER, "AIOKafkaConsumerThread._commit"): (
        "932852ce7a23",
        "False where the group was rebalanced, crash on other errors",
    ),
    (DRIVER, "AIOKafkaConsumerThread._seek_wait"): (
        "9d221e816d94",
        "positions of changelogs",
    ),
    (DRIVER, "AIOKafkaConsumerThread._fetch_records"): (
        "39a2c6c79fc1",
        "other topics: reads nothing while the flow is stopped",
    ),
    ("faust.transport.base", "Transport"): (
        "0b345940700e",
        "Consumer is the class that create_consumer makes",
    ),
    ("faust.transport.conductor", "Conductor.on_partitions_assigned"): (
        "616e9729131c",
        "fills _tp_index before the seek",
    ),
    ("faust.transport.conductor", "Conductor._update_tp_index"): (
        "e8e3ac9025ef",
        "the channels of each partition",
    ),
    ("faust.streams", "Stream._c_aiter"): (
        "fa44582a5882",
        "without enable_acks nothing is acknowledged",
    ),
    ("faust.events", "Event.ack"): (
        "2d29a6eda87c",
        "acknowledges the message with the app's consumer",
    ),
    ("faust.types.tuples", "Message.ack"): (
        "4751b72c4ed8",
        "counts down the streams, then on_final_ack",
    ),
    ("faust.types.tuples", "ConsumerMessage.on_final_ack"): (
        "45d670b6a8ac",
        "calls Consumer.ack",
    ),
    ("faust.app.base", "App._new_consumer"): (
        "bff6ccd646b7",
        "made by the app's transport, when first asked for",
    ),
    ("faust.app.base", "App._on_partitions_revoked"): (
        "d5c895bbe57d",
        "stops the flow and clears queues; waits only if told to",
    ),
    ("faust.app.base", "App._on_partitions_assigned"): (
        "de932b7927db",
        "pauses, indexes, then recovery and its seek",
    ),
    ("faust.app.base", "App._stop_consumer"): (
        "55854a5de12c",
        "stops the flow while agents still run",
    ),
    ("faust.tables.recovery", "Recovery._resume_streams"): (
        "d986a6710c1a",
        "without tables: resumes partitions, seeks, resumes the flow",
    ),
    ("faust.tables.recovery", "Recovery.on_recovery_completed"): (
        "6ef567acf072",
        "with tables: the same after they are read",
    ),
    ("mode.utils.queues", "FlowControlQueue"): (
        "15f15a87fd6d",
        "pressure sizes may be set; drop callbacks come at get",
    ),
    ("mode.utils.queues", "FlowControlEvent"): (
        "1da8f905ab65",
        "is_active and acquire",
    ),
    ("mode.threads", "ServiceThread"): (
        "327e312386fa",
        "thread_loop, and how the thread ends",
    ),
    (FETCHER, "FetchResult"): (
        "d7db13f06de8",
        "check_assignment, has_more, _update_position, _partition_records",
    ),
    (FETCHER, "FetchError"): (
        "10966ad4c795",
        "check_raise",
    ),
    (FETCHER, "PartitionRecords"): (
        "94aa0da0dbec",
        "unpacked by streams.kafka.unpack in its place",
    ),
    (FETCHER, "Fetcher.__init__"): (
        "bf21ecb7e0f2",
        "_records and _isolation_level",
    ),
    (FETCHER, "Fetcher.close"): (
        "1cd24bc1c442",
        "ends in CancelledError where a fetch waits to be tried again",
    ),
    (FETCHER, "Fetcher._create_fetch_waiter"): (
        "61d840568746",
        "resolved when a fetch brought something",
    ),
    (FETCHER, "Fetcher._get_actions_per_node"): (
        "1dab2cf937d1",
        "_records holds back the next fetch until it is used up",
    ),
    (FETCHER, "Fetcher._proc_fetch_request"): (
        "59bf948fff47",
        "what a response leaves in _records and in the partition's state",
    ),
    (FETCHER, "Fetcher.fetched_records"): (
        "be4348896b9b",
        "other topics; an empty set means all; what _sweep stands in for",
    ),
    (FETCHER, "Fetcher._update_fetch_positions"): (
        "d7774d8241dc",
        "finds where to begin in a partition without a committed offset",
    ),
    (FETCHER, "Fetcher.end_offsets"): (
        "d03333ff4f87",
        "one request for each broker, tried again until the time is up",
    ),
    (FETCHER, "Fetcher._proc_offset_requests"): (
        "96978550f836",
        "one request for each broker",
    ),
    (FETCHER, "Fetcher._proc_offset_request"): (
        "40c09472da94",
        "asks with the isolation level",
    ),
    (FETCHER, "Fetcher.seek_to"): (
        "f0ba6aba6c22",
        "sets the position and drops what was fetched",
    ),
    (STATE, "SubscriptionState.fetch_context"): (
        "ff2a654dca23",
        "counts readers, though not after an error",
    ),
    (STATE, "Assignment"): (
        "ce6859542c70",
        "active until the next one",
    ),
    (STATE, "TopicPartitionState"): (
        "2b83334afadf",
        "position, lso, paused",
    ),
    (COORDINATOR, "GroupCoordinator.check_errors"): (
        "ba6ca51ad348",
        "raises what the coordinator died of",
    ),
    (COORDINATOR, "GroupCoordinator.fetch_committed_offsets"): (
        "6c049c737916",
        "one request for all; -1 where there is none",
    ),
    (COORDINATOR, "GroupCoordinator.commit_offsets"): (
        "5cbe31af28d6",
        "CommitFailedError says already rebalanced; else tried for ever",
    ),
    ("aiokafka.consumer.consumer", "AIOKafkaConsumer.start"): (
        "2f1ba7044332",
        "hands _fetch_max_wait_ms and _isolation_level to the fetcher",
    ),
    ("aiokafka.consumer.consumer", "AIOKafkaConsumer.stop"): (
        "bc5da9c98595",
        "closes coordinator, fetcher, client in turn",
    ),
}


def source_hash(module: str, name: str) -> str:
    """First 12 hex digits of the SHA-256 of the source."""
    found = attrgetter(name)(importlib.import_module(module))
    return hashlib.sha256(inspect.getsource(found).encode()).hexdigest()[:12]


@pytest.mark.parametrize(("module", "name"), PINS)
def test_what_is_leaned_on_stands_where_it_stood(module: str, name: str) -> None:
    """The source is the one that streams.ingest was written against."""
    expected, reason = PINS[module, name]
    installed = ", ".join(
        f"{dist} {version(dist)}"
        for dist in ("faust-streaming", "mode-streaming", "aiokafka")
    )
    try:
        actual = source_hash(module, name)
    except AttributeError:
        actual = "gone"
    assert expected == actual, (
        f"{module}.{name} moved ({installed}). streams.ingest relies on it: {reason}"
    )


@pytest.mark.asyncio
async def test_a_skipped_event_is_not_acknowledged(tmp_path: Path) -> None:
    """The compiled iterator: neither an old generation's nor one in a stopped flow."""
    app = faust.App("ingest-pins", broker="kafka://nowhere", datadir=str(tmp_path))
    app.consumer_generation_id = 2
    app.flow_control.resume()
    topic = app.topic("t", value_type=bytes, value_serializer="raw")
    stream: Any = topic.stream()
    events = stream.noack().events()
    arrived = events.__aiter__()

    def put(offset: int, generation: int) -> ConsumerMessage:
        tp, value = TP("t", 0), b"%d" % offset
        message = ConsumerMessage(
            "t", 0, offset, 0.0, 0, None, None, value, None, tp=tp
        )
        message.generation_id = generation
        message.incref()
        event = app.create_event(None, value, None, message)
        stream.channel.queue.force_put_nowait(event)
        return message

    old, current = put(0, 1), put(1, 2)
    assert b"1" == (await arrived.__anext__()).value
    assert not old.acked
    assert not current.acked
    await stream.stop()
    cast(Any, app.consumer)._thread.thread_loop.close()
