"""What is freed goes back to the system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Blocks of 7 MiB, each below a row that stays; prints what is resident more than
# before once they are freed, in bytes.
_CHURN = """
import resource, sys
from pathlib import Path
from streams.heap import bound_heap

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()

if sys.argv[1] == "bound":
    assert bound_heap()
# glibc serves from its heap what is smaller than the largest block freed yet.
block = bytearray(8 << 20)
del block
before = resident()
blocks, rows = [], []
for number in range(16):
    blocks.append(bytearray(7 << 20))
    rows.append(bytes(1000 + number))
blocks.clear()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's options")
@pytest.mark.parametrize(("how", "is_returned"), [("bound", True), ("default", False)])
def test_freed_blocks_return_to_the_system(how: str, *, is_returned: bool) -> None:
    """By default they stay; should that change, the options can go."""
    done = subprocess.run(
        [sys.executable, "-c", _CHURN, how],
        check=True,
        cwd=ROOT,
        capture_output=True,
        env={},
    )
    assert is_returned is (int(done.stdout) < 8 << 20)
