#!/usr/bin/env bash
# Installs the validators of the monitoring files, once, and prints their directory.
#
#   tests/deploy/tools.sh     # prints e.g. ~/.cache/pathgate/tools/mon-4f1c2ab09d3e/bin
#
# promtool, prometheus, amtool and alertmanager come from Debian's packages, which
# are unpacked and not installed, so that no init script starts a daemon on port
# 9090. amlint comes from PyPI, in a venv of its own. The directory below
# ${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools} is complete once it has the
# file `ready`; an interrupted call starts over. Needs apt, and root only where
# apt's package lists are missing.
set -euo pipefail

packages=(prometheus prometheus-alertmanager)
amlint=amlint==0.8.5
cache=${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools}
python=${PYTHON:-python3}
# Debian's Alertmanager reads its built-in templates from here and nowhere else.
templates=/usr/share/prometheus/alertmanager

digest=$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12)
target=$cache/mon-$digest

place_templates() {
  local template
  for template in "$target/root$templates"/*.tmpl; do
    [[ -e $templates/${template##*/} ]] && continue
    if ! { mkdir -p "$templates" && cp "$template" "$templates/"; } 2>/dev/null; then
      echo "cannot write to $templates: alertmanager will not start" >&2
    fi
  done
}

fetch() {
  rm -rf "$target"
  mkdir -p "$target/bin" "$target/debs"
  if ! apt-cache show "${packages[@]}" >/dev/null 2>&1; then
    apt-get update -qq
  fi
  (cd "$target/debs" && apt-get download -qq "${packages[@]}")
  for deb in "$target"/debs/*.deb; do
    dpkg -x "$deb" "$target/root"
  done
  rm -r "$target/debs"
  for name in promtool prometheus amtool; do
    ln -s "../root/usr/bin/$name" "$target/bin/$name"
  done
  ln -s ../root/usr/bin/prometheus-alertmanager "$target/bin/alertmanager"
  "$python" -m venv "$target/venv"
  "$target/venv/bin/python" -m pip install --disable-pip-version-check \
    --quiet --no-compile "$amlint"
  ln -s ../venv/bin/amlint "$target/bin/amlint"
  touch "$target/ready"
}

mkdir -p "$cache"
exec 9>"$cache/mon.lock"
flock 9
[[ -e $target/ready ]] || fetch >&2
place_templates
echo "$target/bin"
