"""Notes that workers and commands send to a run's own partition."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.errors import DecodeError
from streams.publish import Outgoing
from streams.settings import Settings
from streams.topics import TopicNames, partition_for


class ControlKind(StrEnum):
    """What a note asks for.

    ``misrouted``: events of the run are on a partition that is not its own;
    close its gate. ``rebuild``: read the run's events again from the topics.
    """

    MISROUTED = "misrouted"
    REBUILD = "rebuild"


class Control(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One note."""

    kind: ControlKind
    run_id: Annotated[str, Meta(min_length=1, max_length=512)]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Control)


def control_record(control: Control, settings: Settings, names: TopicNames) -> Outgoing:
    """A note, ready to be written to the partition the run belongs to."""
    key = control.run_id.encode()
    return Outgoing(
        names.control,
        partition_for(key, settings.partitions, settings.partitioner),
        key,
        _encoder.encode(control),
    )


def decode_control(data: bytes | None) -> Control:
    """Reads a note.

    Raises:
        DecodeError: It is none.
    """
    try:
        return _decoder.decode(data or b"")
    except msgspec.DecodeError as error:
        raise DecodeError("$", "expected a control note") from error
