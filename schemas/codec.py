"""The only decoder and encoder of bytes: what others import.

Events and documents are read in modules of their own; the records that
pathgate publishes are read back here.
"""

from typing import TypeVar

import msgspec

from schemas.documents import (
    decode_aliases,
    decode_suite,
    decode_summary,
    in_document_order,
)
from schemas.errors import DecodeError
from schemas.event_reader import decode_event, is_v2_grammar, runs_of_rejected
from schemas.faults import check_text, place_and_shape, syntax_fault
from schemas.records import AlertRecord, SuiteRecord, TaskRecord

__all__ = [
    "MAX_RECORD_BYTES",
    "decode_alert",
    "decode_aliases",
    "decode_event",
    "decode_suite",
    "decode_suite_record",
    "decode_summary",
    "decode_task_record",
    "encode",
    "in_document_order",
    "is_v2_grammar",
    "runs_of_rejected",
]

MAX_RECORD_BYTES = 64 * 1024 * 1024

_R = TypeVar("_R", TaskRecord, SuiteRecord, AlertRecord)


def encode(record: msgspec.Struct) -> bytes:
    """The bytes of a record: compact JSON, declared key order, same every run."""
    return msgspec.json.encode(record)


def decode_task_record(data: bytes) -> TaskRecord:
    """Reads back a value of ``eval.task-summary``.

    Raises:
        DecodeError: It is no such record of this version.
    """
    return _decode(data, _task_record)


def decode_suite_record(data: bytes) -> SuiteRecord:
    """Reads back a value of ``eval.suite-summary``.

    Raises:
        DecodeError: It is no such record of this version.
    """
    return _decode(data, _suite_record)


def decode_alert(data: bytes) -> AlertRecord:
    """Reads back a value of ``eval.gate-alert``.

    Raises:
        DecodeError: It is no such record of this version.
    """
    return _decode(data, _alert)


_task_record = msgspec.json.Decoder(TaskRecord)
_suite_record = msgspec.json.Decoder(SuiteRecord)
_alert = msgspec.json.Decoder(AlertRecord)


def _decode(data: bytes, decoder: "msgspec.json.Decoder[_R]") -> _R:
    check_text(data, MAX_RECORD_BYTES)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        fault = DecodeError(*place_and_shape(error))
    except msgspec.DecodeError:
        fault = syntax_fault(data)
    # Raised here, so that no error of the parser hangs on it as its context.
    raise fault
