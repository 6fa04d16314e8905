#!/usr/bin/env bash
# Grants the rights that pathgate's users need, and nothing else; repeatable.
#
#   kafka-acls.sh --bootstrap-server kafka:9093 --command-config admin.properties
#
# All arguments go to Kafka's tool of the same name, which KAFKA_ACLS names if it is
# elsewhere. USERS restricts it to some users: USERS="pathgate pathgate-topics".
# HOST allows them from one address only. Written by deploy/acl/acls.py.
set -euo pipefail

tool=${KAFKA_ACLS:-/opt/kafka/bin/kafka-acls.sh}
host=${HOST:-*}
users=" ${USERS:-pathgate pathgate-topics pathgate-suites pathgate-verify pathgate-host pathgate-reader} "
connection=("$@")

allow() {
  local user=$1
  shift
  case $users in
    *" $user "*) ;;
    *) return 0 ;;
  esac
  "$tool" "${connection[@]}" --add --force \
    --allow-principal "User:$user" --allow-host "$host" "$@"
}

# `pathgate worker`, `doctor`, `topics check`
allow pathgate --resource-pattern-type literal \
  --operation Read --operation Describe --operation DescribeConfigs \
  --topic agent.tool-called \
  --topic eval.started \
  --topic eval.scored \
  --topic eval.completed \
  --topic run.terminal \
  --topic eval.suite-definition
allow pathgate --resource-pattern-type literal \
  --operation Write --operation Describe --operation DescribeConfigs \
  --topic eval.task-summary \
  --topic eval.suite-summary \
  --topic eval.gate-alert \
  --topic eval.dead-letter
allow pathgate --resource-pattern-type literal \
  --operation Read \
  --topic eval.suite-summary
allow pathgate --resource-pattern-type prefixed \
  --operation Read --operation Write --operation Describe --operation DescribeConfigs \
  --topic pathgate-
allow pathgate --resource-pattern-type literal \
  --operation Read --operation Describe \
  --group pathgate
allow pathgate --resource-pattern-type prefixed \
  --operation Read --operation Describe \
  --group pathgate-v

# `pathgate topics create`
allow pathgate-topics --resource-pattern-type literal \
  --operation Create --operation Describe --operation DescribeConfigs \
  --topic agent.tool-called \
  --topic eval.started \
  --topic eval.scored \
  --topic eval.completed \
  --topic run.terminal \
  --topic eval.suite-definition \
  --topic eval.task-summary \
  --topic eval.suite-summary \
  --topic eval.gate-alert \
  --topic eval.dead-letter \
  --topic pathgate-control \
  --topic pathgate-runs-changelog

# `pathgate suites publish`
allow pathgate-suites --resource-pattern-type literal \
  --operation Read --operation Write --operation Describe \
  --topic eval.suite-definition

# `pathgate verify`, with `--repair` too; `replay --from-topics`
allow pathgate-verify --resource-pattern-type literal \
  --operation Read --operation Describe \
  --topic agent.tool-called \
  --topic eval.started \
  --topic eval.scored \
  --topic eval.completed \
  --topic run.terminal \
  --topic eval.suite-definition \
  --topic eval.task-summary \
  --topic eval.suite-summary \
  --topic pathgate-runs-changelog
allow pathgate-verify --resource-pattern-type literal \
  --operation Write --operation Describe \
  --topic pathgate-control

# an OpenWOP host that publishes run events
allow pathgate-host --resource-pattern-type literal \
  --operation Write --operation Describe \
  --topic agent.tool-called \
  --topic eval.started \
  --topic eval.scored \
  --topic eval.completed \
  --topic run.terminal

# a deployment gate or an alert receiver
allow pathgate-reader --resource-pattern-type literal \
  --operation Read --operation Describe \
  --topic eval.task-summary \
  --topic eval.suite-summary \
  --topic eval.gate-alert
allow pathgate-reader --resource-pattern-type prefixed \
  --operation Read --operation Describe \
  --group pathgate-reader
