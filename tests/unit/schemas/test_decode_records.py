"""Records that pathgate published are read back as they were."""

import traceback
from collections.abc import Callable

import msgspec
import pytest

from schemas import catalog
from schemas.codec import (
    decode_alert,
    decode_suite_record,
    decode_task_record,
    encode,
)
from schemas.errors import DecodeCode, DecodeError
from schemas.records import AlertRecord, SuiteRecord, TaskRecord

Reader = Callable[[bytes], TaskRecord | SuiteRecord | AlertRecord]

READERS: dict[str, Reader] = {
    "task-summary": decode_task_record,
    "suite-summary": decode_suite_record,
    "gate-alert": decode_alert,
}


@pytest.mark.parametrize("name", READERS)
def test_record_reads_back_as_the_same_bytes(name: str) -> None:
    """Reading and writing again gives the very bytes that were written."""
    read = READERS[name]
    for each in catalog.examples(name):
        if each.is_valid:
            written = encode(read(each.data))
            assert encode(read(written)) == written
            assert msgspec.json.decode(written) == msgspec.json.decode(each.data)


CANARY = "CANARY"


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("data", "code", "path"),
    [
        (b"", DecodeCode.EMPTY, "$"),
        (b"{CANARY", DecodeCode.NOT_JSON, "$"),
        (b'{"a":"\xffCANARY"}', DecodeCode.INVALID_UTF8, "$"),
        (b'{"CANARY":1}', DecodeCode.INVALID_DOCUMENT, "$"),
        (b'{"x - at `$.CANARY":1}', DecodeCode.INVALID_DOCUMENT, "$"),
        (
            b'{"recordVersion":"CANARY"}',
            DecodeCode.INVALID_DOCUMENT,
            "$.recordVersion",
        ),
        (b'{"recordVersion":2}', DecodeCode.INVALID_DOCUMENT, "$.recordVersion"),
        (b'["CANARY"]', DecodeCode.INVALID_DOCUMENT, "$"),
    ],
)
def test_other_bytes_are_refused_without_quoting_them(
    name: str, data: bytes, code: DecodeCode, path: str
) -> None:
    """A record of another form or version is refused; its text stays out."""
    with pytest.raises(DecodeError) as caught:
        READERS[name](data)
    fault = caught.value
    assert (fault.code, fault.path) == (code, path)
    assert CANARY not in str(fault) + repr(vars(fault))
    assert CANARY not in "".join(traceback.format_exception_only(fault))
    assert fault.__context__ is None


def test_value_outside_a_closed_list_is_not_quoted() -> None:
    """The decoder's own message would quote it."""
    example = next(iter(catalog.examples("gate-alert"))).data
    alert = msgspec.json.decode(
        next(e.data for e in catalog.examples("gate-alert") if e.is_valid)
    )
    assert example
    for key in ("kind", "severity"):
        with pytest.raises(DecodeError) as caught:
            decode_alert(msgspec.json.encode(alert | {key: CANARY}))
        assert caught.value.path == f"$.{key}"
        assert CANARY not in str(caught.value)
