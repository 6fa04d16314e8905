#!/usr/bin/env bash
# Makes the keys, certificates and passwords of compose/tls.yaml, for trying it out:
# an authority, the broker's certificate, the administrator's, a password a user.
#
#   deploy/compose/make-certs.sh [DIRECTORY]       # deploy/compose/certs if not given
#
# Valid for 30 days; call it again and restart to renew. Needs OpenSSL 3.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
target=${1:-$here/certs}
days=30

# Only its owner may enter the directory. The files within are readable by all, since
# each is mounted by itself into a container whose user is another.
mkdir -p "$target"
chmod 700 "$target"
umask 022
cd "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

new_key() {
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

new_key "$work/ca.key"
openssl req -x509 -new -key "$work/ca.key" -days "$days" -subj "/CN=pathgate demo authority" \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
  -out ca.crt

# NAME SUBJECT_ALTERNATIVE_NAMES USAGES: a key and its certificate in NAME.pem.
issue() {
  new_key "$work/$1.key"
  openssl req -new -key "$work/$1.key" -subj "/CN=$1" -out "$work/$1.csr"
  {
    echo "basicConstraints=critical,CA:FALSE"
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$3"
    if [[ -n $2 ]]; then echo "subjectAltName=$2"; fi
  } >"$work/$1.ext"
  openssl x509 -req -in "$work/$1.csr" -CA ca.crt -CAkey "$work/ca.key" -days "$days" \
    -set_serial "0x$(openssl rand -hex 16)" -extfile "$work/$1.ext" -out "$work/$1.crt" 2>/dev/null
  cat "$work/$1.key" "$work/$1.crt" ca.crt >"$1.pem"
}

# The broker is a client too, of its controller.
issue kafka DNS:kafka,DNS:localhost,IP:127.0.0.1 serverAuth,clientAuth
issue admin "" clientAuth

for user in pathgate pathgate-topics pathgate-suites pathgate-verify pathgate-host pathgate-reader; do
  [[ -e $user.password ]] || openssl rand -hex 24 >"$user.password"
done
echo "made in $target: ca.crt kafka.pem admin.pem *.password"
