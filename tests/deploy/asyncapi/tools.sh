#!/usr/bin/env bash
# Installs the validators of the AsyncAPI document, once, and prints their directory.
#
#   tests/deploy/asyncapi/tools.sh    # prints e.g. ~/.cache/pathgate/tools/api-4f1c2ab09d3e
#
# The directory below ${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools} holds a
# node_modules and is named by a digest of this script. It is complete once it has the
# file `ready`; an interrupted call starts over. Needs Node 18 or newer and npm.
set -euo pipefail

packages=(@asyncapi/parser@3.6.6 @stoplight/spectral-cli@6.16.3)
cache=${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools}

digest=$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12)
target=$cache/api-$digest

fetch() {
  command -v node >/dev/null || { echo "there is no node"; return 1; }
  command -v npm >/dev/null || { echo "there is no npm"; return 1; }
  rm -rf "$target"
  mkdir -p "$target"
  # A package.json of its own, or npm would look for one in the folders above.
  echo '{"private": true}' >"$target/package.json"
  # None of the packages needs its install script, so none gets to run one.
  npm install --prefix "$target" --ignore-scripts --no-audit --no-fund \
    --no-update-notifier --loglevel=error --save-exact "${packages[@]}"
  touch "$target/ready"
}

mkdir -p "$cache"
exec 9>"$cache/api.lock"
flock 9
[[ -e $target/ready ]] || fetch >&2
echo "$target"
