#!/bin/sh
# Installs the SDKs, and the clients that others build on them, which the cases of this folder use, at the versions that
# are pinned here. It does nothing where they are installed already. What cannot be installed is named, and its cases skip;
# where $CI is set that is a failure.
set -u
cd "$(dirname "$0")"
cache=$(cd ../.. && pwd)/.cache
missing=0

lacking() {
	echo "test/sdk: the $1 SDK was not installed: $2; its cases skip" >&2
	missing=1
}

# unchanged STAMP FILE: whether FILE is what was installed the last time.
unchanged() { cmp -s "$1" "$2"; }

python_sdk() {
	../python.sh "$cache/sdk-python" python/requirements.txt || lacking Python "there is no python3, or venv or pip failed (Debian: apt install python3-venv)"
}

node_sdk() {
	if unchanged node/node_modules/.installed node/package-lock.json; then return; fi
	command -v npm >/dev/null || { lacking Node "there is no npm"; return; }
	if npm --prefix node ci --no-audit --no-fund --loglevel=error; then
		cp node/package-lock.json node/node_modules/.installed
	else
		rm -rf node/node_modules
		lacking Node "npm ci failed"
	fi
}

go_sdk() {
	command -v go >/dev/null || { lacking Go "there is no go"; return; }
	go -C go mod download || lacking Go "go mod download failed"
}

mkdir -p "$cache"
python_sdk
node_sdk
go_sdk
[ "$missing" = 0 ] || [ -z "${CI:-}" ]
