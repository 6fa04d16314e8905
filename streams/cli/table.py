"""Facts in columns, plain enough to be cut and grepped."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows with their columns aligned; nothing for no rows.

    Args:
        rows: Cells, equally many a row; the last column is not padded.
    """
    if not rows:
        return ""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    widths[-1] = 0
    return "".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        + "\n"
        for row in rows
    )
