"""How far one partition was handed out, and how far its chunks are acknowledged."""

from typing import cast

from faust.types import Message

from streams.ingest.chunk import Chunk


class Ledger:
    """Chunks of one partition since it was last positioned, and who acknowledged.

    One ledger lives from a positioning (rebalance, seek) to the next. A chunk of an
    earlier ledger is unknown to the later one, which is how an old generation's
    acknowledgements come to nothing.

    Attributes:
        stamp: Names the positioning; what was fetched under another is not ours.
        start: Offset where this ledger began; None until the position is known.
        position: Offset below which everything was handed out or holds no record.
        committed: The group's committed offset; None if it has none.
        handed_up_to: Where the last chunk that was handed out ends; None if none was.
    """

    __slots__ = (
        "_acked",
        "_waiting",
        "committed",
        "handed_up_to",
        "position",
        "stamp",
        "start",
    )

    def __init__(
        self, stamp: int, position: int | None, committed: int | None = None
    ) -> None:
        self.stamp = stamp
        self.start = position
        self.position = position
        self.committed = committed
        self.handed_up_to: int | None = None
        # By first offset, in the order of the partition. From the first chunk that
        # is not acknowledged on: the later ones may be, and then stand in _acked.
        self._waiting: dict[int, Message] = {}
        self._acked: set[int] = set()

    def begin(self, offset: int) -> None:
        """Notes where reading started, if that was not known."""
        if self.start is None:
            self.start = self.position = offset

    def add(self, message: Message) -> None:
        """Notes a chunk, the message's value, as handed out."""
        chunk = _chunk(message)
        self._waiting[chunk.first_offset] = message
        self.position = self.handed_up_to = chunk.next_offset

    def skip_to(self, offset: int) -> None:
        """Notes that no record is left below ``offset``."""
        self.position = offset

    def holds(self, chunk: Chunk) -> bool:
        """Whether the chunk was handed out here and waits for acknowledgement."""
        message = self._waiting.get(chunk.first_offset)
        return (
            message is not None
            and _chunk(message) is chunk
            and chunk.first_offset not in self._acked
        )

    def ack(self, chunk: Chunk) -> bool:
        """Acknowledges the chunk; False if it is not one of ours or was before."""
        if not self.holds(chunk):
            return False
        waiting, acked = self._waiting, self._acked
        acked.add(chunk.first_offset)
        while waiting:
            first = next(iter(waiting))
            if first not in acked:
                break
            acked.remove(first)
            del waiting[first]
        return True

    @property
    def waiting(self) -> list[Message]:
        """What was handed out and is not acknowledged, in order."""
        return [m for first, m in self._waiting.items() if first not in self._acked]

    @property
    def processed(self) -> int | None:
        """Every record below this offset is acknowledged or never was one.

        None as long as the position is unknown.
        """
        return next(iter(self._waiting), self.position)

    @property
    def committable(self) -> int | None:
        """The offset to commit, or None where a commit would say nothing new."""
        reached = self.processed
        known = self.start if self.committed is None else self.committed
        if reached is None or known is None or reached <= known:
            return None
        return reached


def _chunk(message: Message) -> Chunk:
    # Faust's type tells of messages off the wire, whose values are bytes.
    return cast(Chunk, message.value)
