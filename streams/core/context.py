"""What grading needs beside the events: policy, digester, suites."""

from collections.abc import Mapping

import msgspec

from streams.core.arguments import ArgsDigester
from streams.core.compiled import CompiledSuite
from streams.core.policy import Policy


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Passed to every step of grading.

    Args:
        policy: The operator's choices.
        digester: Makes the digests of arguments.
        suites: ``suiteId@version`` -> suite; may grow while events are read.
    """

    policy: Policy
    digester: ArgsDigester
    suites: Mapping[str, CompiledSuite]
