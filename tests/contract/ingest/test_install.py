"""The batched consumer is put only under what it was written for."""

from pathlib import Path

import faust
import pytest
from aiokafka.structs import ConsumerRecord
from faust import streams as faust_streams
from faust.types import TP

from streams import ingest
from streams.ingest.consumer import _message
from streams.ingest.transport import require_supported


def app(tmp_path: Path, promise: str = "at_least_once") -> faust.App:
    """An app that no test starts."""
    return faust.App(
        "ingest-install",
        broker="kafka://nowhere",
        datadir=str(tmp_path),
        processing_guarantee=promise,
    )


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("faust-streaming", "0.16.0"),
        ("faust-streaming", "0.14.9"),
        ("faust-streaming", "1.15.3"),
        ("aiokafka", "0.15.0"),
    ],
)
def test_another_minor_version_is_refused_by_name(name: str, found: str) -> None:
    """The error says what is installed and what to revise."""
    versions = {"faust-streaming": "0.15.99", "aiokafka": "0.14.2"} | {name: found}
    with pytest.raises(
        ingest.IngestError, match=rf"{name} .* {found} is installed.*pins"
    ):
        require_supported(versions.__getitem__)


def test_patch_releases_are_taken() -> None:
    """What pins say of a minor version holds for its patches."""
    require_supported({"faust-streaming": "0.15.99", "aiokafka": "0.14.0"}.__getitem__)


def test_the_iterator_in_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It acknowledges messages that it skips."""
    monkeypatch.setattr(faust_streams, "_CStreamIterator", None)
    with pytest.raises(ingest.IngestError, match="NO_CYTHON"):
        require_supported({"faust-streaming": "0.15.3", "aiokafka": "0.14.0"}.get)  # type: ignore[arg-type] # both are there


@pytest.mark.asyncio
async def test_exactly_once_is_refused(tmp_path: Path) -> None:
    """Its transactions commit offsets on another path."""
    with pytest.raises(ingest.IngestError, match="at_least_once"):
        ingest.install(app(tmp_path, "exactly_once"), ["t"])


@pytest.mark.asyncio
async def test_sizes_and_topics_are_checked(tmp_path: Path) -> None:
    """A name in place of a list of names, and sizes that hold nothing."""
    with pytest.raises(ValueError, match=r"source_topics.*'eval\.scored'"):
        ingest.install(app(tmp_path), "eval.scored")
    with pytest.raises(ValueError, match=r"source_topics.*\[\]"):
        ingest.install(app(tmp_path), [])
    with pytest.raises(ValueError, match="chunk_records=0"):
        ingest.install(app(tmp_path), ["t"], chunk_records=0)
    with pytest.raises(ValueError, match="chunks_waiting=0"):
        ingest.install(app(tmp_path), ["t"], chunks_waiting=0)


def test_what_is_logged_of_a_chunk_holds_no_content() -> None:
    """Faust logs messages and events by their representation."""
    record = ConsumerRecord("t", 3, 7, 1, 0, b"secret", b"secret", None, 6, 6, ())
    chunk = ingest.Chunk(TP("t", 3), [record], 7, 8)
    assert "<Chunk t/3 7..8 (1 records)>" == repr(chunk)
    assert "secret" not in repr(_message(chunk, 1))
