#!/usr/bin/env bash
# Gives each user of Kafka its password and its rights.
#
#   users.sh BOOTSTRAP COMMAND_CONFIG DIRECTORY
#
# The users are those that have a file <user>.password in the directory.
set -euo pipefail

bootstrap=$1
config=$2
directory=$3
bin=${KAFKA_BIN:-/opt/kafka/bin}
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# Beside this script in the container, and in the directory of its own in the project.
acls=$here/kafka-acls.sh
[[ -e $acls ]] || acls=$here/../acl/kafka-acls.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

users=()
for file in "$directory"/*.password; do
  user=$(basename "$file" .password)
  users+=("$user")
  # A file and not an argument, which every process of the machine could read. In a
  # file the tool wants no brackets around the value.
  printf 'SCRAM-SHA-512=password=%s\n' "$(<"$file")" >"$work/$user"
  "$bin/kafka-configs.sh" --bootstrap-server "$bootstrap" --command-config "$config" \
    --alter --entity-type users --entity-name "$user" --add-config-file "$work/$user"
done

USERS="${users[*]}" KAFKA_ACLS=$bin/kafka-acls.sh bash "$acls" \
  --bootstrap-server "$bootstrap" --command-config "$config"
