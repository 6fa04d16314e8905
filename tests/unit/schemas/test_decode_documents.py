"""Suites, alias maps and host scorecards: what is read, and where a fault is."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from schemas import catalog
from schemas.codec import decode_aliases, decode_suite, decode_summary, encode
from schemas.documents import MAX_DOCUMENT_BYTES
from schemas.errors import SourceError, SuiteError, SummaryError
from schemas.suite import ArgsMatch, MatchMode, PassRule, Suite, SuiteMode

TRAJECTORY = "$.tasks[0].expected.trajectory"
TRAJECTORY_KEYS = (
    "expected one of the keys match, steps, forbidden, maxCalls, maxExtraCalls,"
    " maxCallsPerTool"
)
SUITE_KEYS = (
    "expected one of the keys suiteId, version, modes, tasks, targetAgentId,"
    " allowedModels, thresholds, trials"
)
TASK_ENTRY_KEYS = (
    "expected one of the keys taskId, score, passed, gatedScore, costUsd, latencyMs,"
    " schemaValid, safetyFindings, trials"
)


def example(schema: str, name: str) -> dict[str, Any]:
    data = next(each.data for each in catalog.examples(schema) if each.name == name)
    document: dict[str, Any] = json.loads(data)
    return document


def suite() -> dict[str, Any]:
    return example("agent-eval-suite", "valid-full.json")


def summary() -> dict[str, Any]:
    return example("eval-summary", "valid-full.json")


def dumped(document: object) -> bytes:
    return json.dumps(document).encode()


def read_suite(document: object) -> Suite:
    return decode_suite(dumped(document), "a.json")


def suite_fault(data: bytes) -> tuple[str, str]:
    with pytest.raises(SuiteError) as caught:
        decode_suite(data, "a.json")
    return parts(caught.value)


def aliases_fault(data: bytes) -> tuple[str, str]:
    with pytest.raises(SuiteError) as caught:
        decode_aliases(data, "a.json")
    return parts(caught.value)


def summary_fault(data: bytes) -> tuple[str, str]:
    with pytest.raises(SummaryError) as caught:
        decode_summary(data, "a.json")
    return parts(caught.value)


def parts(fault: SourceError) -> tuple[str, str]:
    assert fault.source == "a.json"
    assert str(fault) == f"a.json: {fault.path}: {fault.expected}"
    assert fault.__context__ is None or not str(fault.__context__).startswith("Inv")
    return fault.path, fault.expected


def test_suite_is_read_whole() -> None:
    """Every part of a suite comes out as it was written."""
    read = read_suite(suite())
    assert (read.suite_id, read.version) == ("acme.evals.refunds", "1.2.0")
    assert read.modes == (SuiteMode.GOLDEN, SuiteMode.ADVERSARIAL)
    assert read.allowed_models == ("large",)
    assert read.thresholds.pass_score == 0.7
    assert read.thresholds.max_cost_usd == 2.5
    assert read.thresholds.max_p95_latency_ms == 8000
    assert read.trials is not None
    assert (read.trials.count, read.trials.pass_rule) == (3, PassRule.MEAN)
    task = read.tasks[0]
    assert task.expected is not None
    trajectory = task.expected.trajectory
    assert trajectory is not None
    assert trajectory.match is MatchMode.IN_ORDER
    assert [step.tool for step in trajectory.steps] == [
        "orders.lookup",
        ("payments.refund", "payments.refund-v2"),
        "mail.send",
    ]
    first = trajectory.steps[0]
    assert first.args is not UNSET
    assert json.loads(bytes(first.args)) == {"orderId": "A-1001"}
    assert first.args_match is ArgsMatch.SUBSET
    assert trajectory.steps[1].args is UNSET
    assert [step.optional for step in trajectory.steps] == [False, False, True]
    assert trajectory.forbidden == ("payments.charge", "admin.*")
    assert (trajectory.max_calls, trajectory.max_extra_calls) == (6, 2)
    assert trajectory.max_calls_per_tool == {"payments.refund": 1}


def test_left_out_parts_have_their_defaults() -> None:
    """The least suite has no bar, no trials block and no expectation."""
    read = read_suite(example("agent-eval-suite", "valid-least.json"))
    assert read.thresholds.pass_score is None
    assert read.trials is None
    assert read.tasks[0].expected is None


def test_no_call_expected_is_not_no_expectation() -> None:
    """``steps: []`` stays an expectation."""
    read = read_suite(example("agent-eval-suite", "valid-no-call-expected.json"))
    expected = read.tasks[0].expected
    assert expected is not None
    assert expected.trajectory is not None
    assert expected.trajectory.steps == ()


def test_null_arguments_are_arguments() -> None:
    """``args: null`` expects null, which is not the same as any arguments."""
    read = read_suite(example("agent-eval-suite", "valid-null-arguments.json"))
    expected = read.tasks[1].expected
    assert expected is not None
    assert expected.trajectory is not None
    args = expected.trajectory.steps[0].args
    assert args is not UNSET
    assert bytes(args) == b"null"


def test_arguments_keep_their_spelling() -> None:
    """Numbers of ``args`` are not rewritten on the way."""
    data = dumped(suite()).replace(b'"A-1001"', b"1.00e2")
    expected = decode_suite(data, "a.json").tasks[0].expected
    assert expected is not None
    assert expected.trajectory is not None
    args = expected.trajectory.steps[0].args
    assert args is not UNSET
    assert bytes(args) == b'{"orderId": 1.00e2}'


def test_encoded_suite_reads_back() -> None:
    """What is published of a suite is the same suite."""
    for each in catalog.examples("agent-eval-suite"):
        if each.is_valid:
            read = decode_suite(each.data, each.name)
            assert decode_suite(encode(read), each.name) == read


def set_at(*path: str | int, to: object) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


T = ("tasks", 0, "expected", "trajectory")


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        (
            set_at(*T, "maxcalls", to=6),
            f"{TRAJECTORY}.maxcalls",
            TRAJECTORY_KEYS,
        ),
        (
            set_at(*T, "x-note", to="no"),
            f"{TRAJECTORY}.x-note",
            TRAJECTORY_KEYS,
        ),
        (
            set_at(*T, "steps", 1, "args hash", to=""),
            f'{TRAJECTORY}.steps[1]["args hash"]',
            "expected one of the keys tool, args, argsMatch, argsHash, optional",
        ),
        (
            set_at("tasks", 0, "expected", "trajectroy", to={}),
            "$.tasks[0].expected.trajectroy",
            "expected one of the keys kind, match, rubric, trajectory",
        ),
        (
            set_at("k" * 70, to=1),
            f'$["{"k" * 64}..."]',
            SUITE_KEYS,
        ),
        (
            set_at("thresholds", "passscore", to=1),
            "$.thresholds.passscore",
            "expected one of the keys passScore, maxCostUsd, maxP95LatencyMs",
        ),
        (
            set_at(*T, "maxCalls", to=None),
            f"{TRAJECTORY}.maxCalls",
            "expected a value, or the key left out",
        ),
        (set_at(*T, to=None), TRAJECTORY, "expected a value, or the key left out"),
        (
            set_at("trials", to=None),
            "$.trials",
            "expected a value, or the key left out",
        ),
        (
            set_at("modes", 1, to="gold"),
            "$.modes[1]",
            "expected one of golden, rubric, adversarial, regression, live-shadow",
        ),
        (
            set_at(*T, "match", to="strict"),
            f"{TRAJECTORY}.match",
            "expected one of exact, in-order, any-order, unordered, subset",
        ),
        (
            set_at(*T, "steps", 0, "argsMatch", to="most"),
            f"{TRAJECTORY}.steps[0].argsMatch",
            "expected one of exact, subset",
        ),
        (
            set_at("trials", "passRule", to="most"),
            "$.trials.passRule",
            "expected one of all, any, mean",
        ),
        (
            set_at("trials", "passRule", to=1),
            "$.trials.passRule",
            "expected a string",
        ),
        (
            set_at(*T, "steps", 1, to={"args": {}}),
            f"{TRAJECTORY}.steps[1].tool",
            "expected a value, it is required",
        ),
        (
            set_at(*T, "steps", 1, to="orders.lookup"),
            f"{TRAJECTORY}.steps[1]",
            "expected an object",
        ),
        (
            set_at(*T, "steps", 1, "tool", to=[["a"]]),
            f"{TRAJECTORY}.steps[1].tool[0]",
            "expected a string",
        ),
        (
            set_at(*T, "steps", 1, "tool", to=7),
            f"{TRAJECTORY}.steps[1].tool",
            "expected a string or an array",
        ),
        (
            set_at(*T, "steps", 1, "tool", to=""),
            f"{TRAJECTORY}.steps[1].tool",
            "expected a string of length >= 1",
        ),
        (
            set_at(*T, "steps", to={}),
            f"{TRAJECTORY}.steps",
            "expected an array",
        ),
        (
            set_at(*T, "maxCalls", to=-1),
            f"{TRAJECTORY}.maxCalls",
            "expected an integer >= 0",
        ),
        (
            set_at(*T, "maxCalls", to=2.0),
            f"{TRAJECTORY}.maxCalls",
            "expected an integer",
        ),
        (
            set_at(*T, "maxCallsPerTool", "a", to="1"),
            f"{TRAJECTORY}.maxCallsPerTool[...]",
            "expected an integer",
        ),
        (
            set_at("tasks", 1, "taskId", to="refund-small"),
            "$.tasks[1].taskId",
            "expected an id of its own, tasks[0] has it too",
        ),
        (
            set_at("tasks", 1, "taskId", to="Refund"),
            "$.tasks[1].taskId",
            "expected a string matching regex '^[a-z0-9][a-z0-9-]*$'",
        ),
        (set_at("tasks", to=[]), "$.tasks", "expected an array of length >= 1"),
        (
            set_at("thresholds", "passScore", to=1.5),
            "$.thresholds.passScore",
            "expected a number <= 1.0",
        ),
    ],
)
def test_suite_fault_is_placed(
    change: Callable[[dict[str, Any]], None], path: str, expected: str
) -> None:
    """A fault is named by its JSON path and by what should stand there."""
    document = suite()
    change(document)
    assert suite_fault(dumped(document)) == (path, expected)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (b'{"suiteId"', b'{"version": "9.9.9", "suiteId"', "$.version"),
        (b'"maxCalls": 6', b'"maxCalls": 60, "maxCalls": 6', f"{TRAJECTORY}.maxCalls"),
        (
            b'"maxCalls": 6',
            b'"maxCalls": 60, "max\\u0043alls": 6',
            f"{TRAJECTORY}.maxCalls",
        ),
        (
            b'{"payments.refund": 1}',
            b'{"payments.refund": 9, "payments.refund": 1}',
            f'{TRAJECTORY}.maxCallsPerTool["payments.refund"]',
        ),
        (b'"x-a": 1', b'"x-a": 1, "x-a": 2', "$.x-a"),
    ],
)
def test_suite_key_twice_is_refused(old: bytes, new: bytes, path: str) -> None:
    """Of two keys no one can say which was meant."""
    data = dumped(suite() | {"x-a": 1})
    assert old in data
    assert suite_fault(data.replace(old, new, 1)) == (
        path,
        "expected this key only once",
    )


def test_what_is_the_hosts_is_not_looked_into() -> None:
    """Nulls and keys nobody knows are fine where the host's values stand."""
    document = suite()
    task = document["tasks"][0]
    task["input"] = {"anything": None}
    task["fixtures"] = None
    task["expected"]["match"] = {"strategy": "exact", "value": None}
    task["expected"]["rubric"] = [{"criterion": "polite", "weight": 1, "note": None}]
    task["expected"]["x-judge"] = None
    assert read_suite(document).tasks[0].task_id == "refund-small"


@pytest.mark.parametrize(
    ("data", "path", "expected"),
    [
        (b"", "$", "expected a document, not nothing"),
        (b"{", "$", "expected one JSON document (RFC 8259)"),
        (b"[]", "$", "expected an object"),
        (b'{"a":1}{}', "$", "expected one JSON document (RFC 8259)"),
        (b'{"a":NaN}', "$", "expected one JSON document (RFC 8259)"),
        (b'{"a":"\xff"}', "$", "expected UTF-8 throughout"),
        (b'{"x-a":"\\ud800"}', "$", "expected Unicode text without lone surrogates"),
        (b"[" * 500, "$", "expected at most 200 nested arrays and objects"),
        (b'{"x-a":1e400}', "$", "expected numbers within the range of doubles"),
        (
            b'{"x-a":' + b"9" * 5000 + b"}",
            "$",
            "expected numbers of at most 1000 digits",
        ),
        (
            b" " * (MAX_DOCUMENT_BYTES + 1),
            "$",
            "expected at most 67108864 bytes",
        ),
    ],
)
def test_bytes_that_are_no_document_are_refused(
    data: bytes, path: str, expected: str
) -> None:
    """The three readers of documents share one strictness."""
    assert suite_fault(data) == (path, expected)
    if data != b"[]":
        assert aliases_fault(data) == (path, expected)
        assert summary_fault(data) == (path, expected)


def test_number_that_only_doubles_cannot_hold_is_placed() -> None:
    """What the tree reads and the typed decoder does not is refused there."""
    document = suite()
    document["thresholds"]["maxCostUsd"] = 10**400
    path, expected = suite_fault(dumped(document))
    assert (path, expected) == (
        "$.thresholds.maxCostUsd",
        "expected a value of the declared form",
    )


def test_aliases_are_read() -> None:
    """Several spellings may stand for one name."""
    assert decode_aliases(
        b'{"aliases":{"a_b":"a.b","a__b":"a.b"},"x-note":1}', "aliases.json"
    ) == {"a_b": "a.b", "a__b": "a.b"}


NAMES = "expected literal tool names of 1 to 512 characters, without *"


@pytest.mark.parametrize(
    ("data", "path", "expected"),
    [
        (b"[]", "$", "expected an object with the key aliases"),
        (b"{}", "$.aliases", "expected an object, observed name: canonical name"),
        (
            b'{"aliases":[]}',
            "$.aliases",
            "expected an object, observed name: canonical name",
        ),
        (b'{"aliases":{},"alias":{}}', "$.alias", "expected the key aliases alone"),
        (
            b'{"aliases":{},"aliases":{}}',
            "$.aliases",
            "expected this key only once",
        ),
        (
            b'{"aliases":{"a":"b","a":"c"}}',
            "$.aliases.a",
            "expected this key only once",
        ),
        (
            b'{"aliases":{"a":"a"}}',
            "$.aliases.a",
            "expected another name than the observed one",
        ),
        (
            b'{"aliases":{"a":"b","b":"c"}}',
            "$.aliases.a",
            "expected a canonical name that is no observed name itself",
        ),
        (
            b'{"aliases":{"a":"b","b":"a"}}',
            "$.aliases.a",
            "expected a canonical name that is no observed name itself",
        ),
        (b'{"aliases":{"a.b":"c*"}}', '$.aliases["a.b"]', NAMES),
        (b'{"aliases":{"*":"c"}}', '$.aliases["*"]', NAMES),
        (b'{"aliases":{"":"c"}}', '$.aliases[""]', NAMES),
        (b'{"aliases":{"a":""}}', "$.aliases.a", NAMES),
        (b'{"aliases":{"a":null}}', "$.aliases.a", "expected a tool name, a string"),
    ],
)
def test_aliases_fault_is_placed(data: bytes, path: str, expected: str) -> None:
    """A map whose names collide could hide a call, so it is refused."""
    assert aliases_fault(data) == (path, expected)


def test_host_summary_is_read() -> None:
    """A host's scorecard comes out as it was written."""
    read = decode_summary(dumped(summary()), "a.json")
    assert (read.aggregate_score, read.gated_aggregate_score) == (0.9, 0.45)
    assert [task.gated_score for task in read.tasks] == [0.9, 0.0]
    assert read.trial_stats is not UNSET
    assert read.tasks[0].trials is not UNSET


def test_host_summary_may_carry_extension_keys() -> None:
    """They are passed over, on each level."""
    plain = decode_summary(dumped(summary()), "a.json")
    document = summary() | {"x-build": {"a": None}, "openwop-cert": 1}
    document["tasks"][0]["vendor.acme.note"] = None
    document["tasks"][0]["safetyFindings"][0]["x-rule"] = "r1"
    assert decode_summary(dumped(document), "a.json") == plain


@pytest.mark.parametrize("trials", [{"k": 3}, [], 7, None, {"count": -1}])
def test_trial_figures_of_another_form_are_left_out(trials: object) -> None:
    """RFC 0244's names for them are not known here, so none are demanded."""
    document = summary()
    document["trialStats"] = trials
    document["tasks"][0]["trials"] = trials
    read = decode_summary(dumped(document), "a.json")
    assert read.trial_stats is UNSET
    assert read.tasks[0].trials is UNSET


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        (
            set_at("gatedAggregateScore", to=1.01),
            "$.gatedAggregateScore",
            "expected a number <= 1.0",
        ),
        (
            set_at("gatedAggregateScore", to=None),
            "$.gatedAggregateScore",
            "expected a value, or the key left out",
        ),
        (
            set_at("tasks", 1, "gatedScore", to="0"),
            "$.tasks[1].gatedScore",
            "expected a number",
        ),
        (
            set_at("tasks", 1, "gated", to=0),
            "$.tasks[1].gated",
            TASK_ENTRY_KEYS,
        ),
        (
            set_at("tasks", 0, "safetyFindings", 0, "severity", to="grave"),
            "$.tasks[0].safetyFindings[0].severity",
            "expected one of low, medium, high, critical",
        ),
        (set_at("tasks", to=7), "$.tasks", "expected an array"),
        (set_at("tasks", 0, to=7), "$.tasks[0]", "expected an object"),
        (set_at("passed", to=1), "$.passed", "expected true or false"),
        (set_at("taskCount", to=1.0), "$.taskCount", "expected an integer"),
    ],
)
def test_summary_fault_is_placed(
    change: Callable[[dict[str, Any]], None], path: str, expected: str
) -> None:
    """A fault is named by its JSON path and by what should stand there."""
    document = summary()
    change(document)
    assert summary_fault(dumped(document)) == (path, expected)


def test_summary_that_is_no_object_is_refused() -> None:
    """A list of scorecards is none."""
    assert summary_fault(dumped([summary()])) == ("$", "expected an object")


def test_summary_key_twice_is_refused() -> None:
    """Two verdicts are none."""
    data = dumped(summary()).replace(b'"passed": false', b'"passed": true, "passed": 0')
    assert summary_fault(data) == ("$.passed", "expected this key only once")
