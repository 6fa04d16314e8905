"""Every setting: its name, type, bounds, default and what it does."""

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.records import Severity
from streams.core.policy import Aggregation, Attribution, CallEvidence, MissingBudget
from streams.settings.choices import (
    DeadLetterBody,
    LogFormat,
    LogLevel,
    Partitioner,
    SaslMechanism,
    SecurityProtocol,
)

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=1e9)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


def _about(text: str) -> Meta:
    return Meta(description=text)


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a flag, the environment or a file may give.

    Each is documented by its own ``Meta(description=...)``, from which the
    settings table, ``config schema`` and the flags' help are made.
    """

    bootstrap_servers: Annotated[
        str, _about("Brokers to start from, host:port, comma-separated.")
    ] = "127.0.0.1:9092"
    app_id: Annotated[
        str, _about("Consumer group, and first part of internal topics' names.")
    ] = "pathgate"
    client_id: Annotated[
        str, _about("Name in broker logs and quotas; empty: app_id.")
    ] = ""
    topic_prefix: Annotated[
        str, _about("Put before the name of every topic_* setting.")
    ] = ""
    topic_tool_called: Annotated[str, _about("Topic of agent.tool-called events.")] = (
        "agent.tool-called"
    )
    topic_eval_started: Annotated[str, _about("Topic of eval.started events.")] = (
        "eval.started"
    )
    topic_eval_scored: Annotated[str, _about("Topic of eval.scored events.")] = (
        "eval.scored"
    )
    topic_eval_completed: Annotated[str, _about("Topic of eval.completed events.")] = (
        "eval.completed"
    )
    topic_run_terminal: Annotated[
        str, _about("Topic of run.completed, run.failed and run.cancelled events.")
    ] = "run.terminal"
    topic_events: Annotated[
        str, _about("One topic with every event; if given it replaces the five.")
    ] = ""
    topic_suite_definition: Annotated[
        str, _about("Topic of suites, compacted, keyed suiteId@version.")
    ] = "eval.suite-definition"
    topic_task_summary: Annotated[
        str, _about("Topic the task summaries are published to.")
    ] = "eval.task-summary"
    topic_suite_summary: Annotated[
        str, _about("Topic the suite summaries are published to.")
    ] = "eval.suite-summary"
    topic_gate_alert: Annotated[str, _about("Topic the alerts are published to.")] = (
        "eval.gate-alert"
    )
    topic_dead_letter: Annotated[
        str, _about("Topic of the events that could not be read.")
    ] = "eval.dead-letter"
    topic_control: Annotated[
        str, _about("Topic of notes to a run's own worker; empty: <app_id>-control.")
    ] = ""
    partitions: Annotated[
        Count, _about("Partitions of every topic keyed by run; frozen once in use.")
    ] = 6
    replication_factor: Annotated[
        int, Meta(ge=1, le=32767), _about("Replicas of each partition.")
    ] = 3
    min_insync_replicas: Annotated[
        int, Meta(ge=1, le=32767), _about("Replicas that must hold a write.")
    ] = 2
    security_protocol: Annotated[
        SecurityProtocol, _about("How to talk to the brokers, in Kafka's words.")
    ] = SecurityProtocol.PLAINTEXT
    sasl_mechanism: Annotated[
        SaslMechanism | None, _about("SASL mechanism; only with SASL_*.")
    ] = None
    sasl_username: Annotated[str, _about("SASL user; only with SASL_*.")] = ""
    sasl_password_file: Annotated[str, _about("File that holds the SASL password.")] = (
        ""
    )
    ssl_ca_file: Annotated[
        str, _about("PEM file of the authorities trusted; empty: the system's.")
    ] = ""
    ssl_cert_file: Annotated[str, _about("PEM file of the client certificate.")] = ""
    ssl_key_file: Annotated[
        str, _about("PEM file of the client certificate's key.")
    ] = ""
    ssl_key_password_file: Annotated[
        str, _about("File that holds the key's password.")
    ] = ""
    ssl_check_hostname: Annotated[
        bool, _about("Whether a broker's certificate must name its host.")
    ] = True
    suites_dir: Annotated[
        str, _about("Directory of suites; empty: only the suite topic.")
    ] = ""
    attribution: Annotated[
        Attribution,
        _about("Whether a call belongs to the next score, or to its node's."),
    ] = Attribution.SEQUENCE
    aggregation: Annotated[
        Aggregation, _about("How task scores make the suite score.")
    ] = Aggregation.MEAN
    default_pass_score: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        _about("Bar for suites that declare none."),
    ] = None
    missing_budget: Annotated[
        MissingBudget, _about("Verdict on a declared bar whose figures are missing.")
    ] = MissingBudget.CLOSED
    require_call_evidence: Annotated[
        CallEvidence, _about("What expectations without any call event do.")
    ] = CallEvidence.ALERT
    args_digest_key_file: Annotated[
        str, _about("File with the key that digests of arguments are made with.")
    ] = ""
    partitioner: Annotated[
        Partitioner, _about("Hash by which the hosts choose a run's partition.")
    ] = Partitioner.MURMUR2
    host_verdict_grace_s: Annotated[
        Seconds, _about("Wait for eval.completed once all trials are there, seconds.")
    ] = 2.0
    run_idle_timeout_s: Annotated[
        PositiveSeconds, _about("Silence after which a run is abandoned, seconds.")
    ] = 3600.0
    late_window_s: Annotated[
        PositiveSeconds, _about("How long a graded run's state is kept, seconds.")
    ] = 86_400.0
    closed_retention_s: Annotated[
        PositiveSeconds, _about("How long the mark of a closed run is kept, seconds.")
    ] = 2_592_000.0
    late_start_window_s: Annotated[
        PositiveSeconds, _about("How long dropped calls' runs are remembered, seconds.")
    ] = 1200.0
    max_calls_per_trial: Annotated[
        Count, _about("More calls of one trial than this close the gate.")
    ] = 100_000
    dead_letter_body: Annotated[
        DeadLetterBody, _about("Whether a dead letter holds the event's bytes.")
    ] = DeadLetterBody.NONE
    barrier_interval_s: Annotated[
        PositiveSeconds, _about("How often end offsets are asked for, seconds.")
    ] = 0.1
    tick_interval_s: Annotated[
        PositiveSeconds,
        _about("How often a worker looks for runs that are due, seconds."),
    ] = 1.0
    commit_interval_s: Annotated[
        PositiveSeconds, _about("How often offsets are committed, seconds.")
    ] = 1.0
    chunk_records: Annotated[
        Count, _about("Most events that are worked on at once, a partition.")
    ] = 2000
    cache_runs: Annotated[Count, _about("Runs kept decoded in memory, a worker.")] = (
        20_000
    )
    data_dir: Annotated[
        str, _about("Directory of the worker's tables; never shared by workers.")
    ] = ""
    standby_replicas: Annotated[
        int, Meta(ge=0, le=32767), _about("Further copies of each table's partition.")
    ] = 0
    group_instance_id: Annotated[
        str, _about("Static membership id, one a worker; empty: none.")
    ] = ""
    session_timeout_s: Annotated[
        float,
        Meta(ge=6, le=1800),
        _about("Silence after which the group drops a worker, seconds."),
    ] = 15.0
    web_host: Annotated[
        str, _about("Address that probes and metrics are served on.")
    ] = "127.0.0.1"
    web_port: Annotated[
        int, Meta(ge=0, le=65535), _about("Port of the same; 0: any free one.")
    ] = 8321
    log_level: Annotated[LogLevel, _about("Least level that is logged.")] = (
        LogLevel.INFO
    )
    log_format: Annotated[LogFormat, _about("How log lines look.")] = LogFormat.JSON
    severity_gate_closed: Annotated[
        Severity, _about("Severity: a run did not pass.")
    ] = Severity.WARNING
    severity_gate_changed_verdict: Annotated[
        Severity, _about("Severity: a run RFC 0244 would have passed did not.")
    ] = Severity.WARNING
    severity_host_not_migrated: Annotated[
        Severity, _about("Severity: a host passed a run by its ungated scores.")
    ] = Severity.CRITICAL
    severity_host_disagrees: Annotated[
        Severity, _about("Severity: a host's figures differ from ours.")
    ] = Severity.WARNING
    severity_run_incomplete: Annotated[
        Severity, _about("Severity: a run ended with trials missing.")
    ] = Severity.WARNING
    severity_run_abandoned: Annotated[
        Severity, _about("Severity: a run went silent.")
    ] = Severity.WARNING
    severity_unknown_suite: Annotated[
        Severity, _about("Severity: a run whose suite is not known.")
    ] = Severity.CRITICAL
    severity_no_call_evidence: Annotated[
        Severity, _about("Severity: expectations, and no call event in the run.")
    ] = Severity.WARNING
    severity_pass_reopened: Annotated[
        Severity, _about("Severity: a run published as passed passes no longer.")
    ] = Severity.CRITICAL
    severity_misrouted_events: Annotated[
        Severity, _about("Severity: a run's events on a partition not its own.")
    ] = Severity.CRITICAL
    severity_calls_dropped: Annotated[
        Severity,
        _about("Severity: calls of a run were dropped, or an event is unreadable."),
    ] = Severity.WARNING
    severity_late_forbidden_call: Annotated[
        Severity, _about("Severity: a forbidden call after the run was closed.")
    ] = Severity.CRITICAL
