"""Every reason and disagreement has words, and they name what is needed."""

from itertools import chain

import pytest

from schemas.reasons import Reason, RunReason, TaskReason, TrialReason
from schemas.records import Disagreement, DisagreementKind
from streams.render.words import explain, explain_disagreement

CODES = sorted({code.value for code in chain(TrialReason, TaskReason, RunReason)})


@pytest.mark.parametrize("code", CODES)
def test_code_has_words(code: str) -> None:
    """Each code of the closed lists is a sentence, with and without its facts."""
    facts = Reason(
        code=code,
        trials=(1,),
        step=1,
        call=2,
        expected="refund",
        observed="wire",
        key="amount",
        count=2,
        limit=3,
        value=4,
    )
    for reason in (facts, Reason(code=code)):
        assert len(explain(reason).split()) > 3
        assert "None" not in explain(reason)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            Reason(code="forbidden-tool", call=2, observed="wire_x", expected="wire_*"),
            "call 3 (wire_x) is forbidden by wire_*",
        ),
        (
            Reason(code="forbidden-tool", call=0, observed="rm", expected="rm"),
            "call 1 (rm) is forbidden",
        ),
        (
            Reason(code="missing-step", step=1, expected="refund"),
            "step 2 (refund) was not called",
        ),
        (
            Reason(code="unexpected-call", call=1, observed="x"),
            "call 2 (x) serves no step",
        ),
        (
            Reason(code="wrong-order", step=0, expected="a", call=1, observed="b"),
            "call 2 (b) came where step 1 (a) was expected",
        ),
        (
            Reason(code="too-many-calls", observed="search", count=3, limit=2),
            "3 calls of search, at most 2 allowed",
        ),
        (
            Reason(code="too-many-calls", count=5, limit=4),
            "5 calls, at most 4 allowed",
        ),
        (
            Reason(
                code="args-mismatch",
                step=0,
                expected="pay",
                call=0,
                observed="pay",
                key="qty",
            ),
            "call 1 (pay) has other arguments than step 1 (pay) expects: key qty",
        ),
        (
            Reason(code="trial-failed", trials=(1, 3)),
            "trials 1, 3 did not pass",
        ),
        (
            Reason(code="below-pass-score", value=0.79999, limit=0.8),
            "the gating score 0.79999 is less than the pass score 0.8",
        ),
        (
            Reason(code="missing-trial", count=2, limit=3),
            "2 of 3 trials were scored",
        ),
        (
            Reason(code="extra-trial", task_id="refund", count=4, limit=3),
            "task refund: 4 trials were scored, 3 declared",
        ),
        (
            Reason(code="cost-exceeded", value=1.25, limit=1),
            "the cost of 1.25 USD is more than the 1 USD allowed",
        ),
        (
            Reason(code="latency-exceeded", value=1200, limit=1000),
            "the p95 latency of 1200 ms is more than the 1000 ms allowed",
        ),
        (
            Reason(
                code="unattributed-forbidden-call",
                observed="wire_x",
                expected="wire_*",
                count=2,
            ),
            "wire_x was called outside every trial, 2 times, and is forbidden by wire_*",
        ),
    ],
)
def test_reason_is_a_sentence(reason: Reason, expected: str) -> None:
    """Steps and calls are counted from 1; expected stands against observed."""
    assert explain(reason) == expected


@pytest.mark.parametrize("kind", DisagreementKind)
def test_disagreement_has_words(kind: DisagreementKind) -> None:
    """Each kind is a sentence."""
    found = Disagreement(kind=kind.value, host=0.5, ours=1.0)
    expected = "the host says 0.5, the events say 1"
    assert explain_disagreement(found) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            Disagreement(kind="verdict-differs", host=True, ours=False),
            "the host says passed, the events say not passed",
        ),
        (
            Disagreement(kind="trial-passed-off-path", task_id="t", trials=(1, 2)),
            "task t: the host passed trials 1, 2 off the expected path",
        ),
        (
            Disagreement(kind="aggregate-differs", host=0.79999, ours=0.8),
            "the host says 0.79999, the events say 0.8",
        ),
        (
            Disagreement(kind="counts-differ", host=3, ours=2),
            "the host says 3, the events say 2",
        ),
        (
            Disagreement(kind="gated-score-missing", task_id="t", ours=0.5),
            "task t: the host says nothing, the events say 0.5",
        ),
        (
            Disagreement(kind="counts-differ", task_id="t"),
            "task t: only one of the two has it",
        ),
        (
            Disagreement(
                kind="field-differs", field="suiteVersion", host="9.9.9", ours="1.0.0"
            ),
            "suiteVersion: the host says 9.9.9, the events say 1.0.0",
        ),
        (
            Disagreement(
                kind="field-differs", field="trials.passed", task_id="t", host=2, ours=1
            ),
            "task t: trials.passed: the host says 2, the events say 1",
        ),
        (
            Disagreement(kind="field-differs", field="suiteId", host="a\x1b[0m"),
            "suiteId: the host says a\\x1b[0m, the events say nothing",
        ),
        (
            Disagreement(
                kind="field-differs", field="schemaValid", host=True, ours=False
            ),
            "schemaValid: the host says true, the events say false",
        ),
        (
            Disagreement(kind="field-differs", field="trialStats"),
            "trialStats: only one of the two has it",
        ),
    ],
)
def test_disagreement_names_both_sides(found: Disagreement, expected: str) -> None:
    """What the host said stands against what its events say."""
    assert explain_disagreement(found) == expected
