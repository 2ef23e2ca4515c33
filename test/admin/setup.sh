#!/bin/sh
# Installs schemathesis, which the test of this folder runs, at the version that is pinned here. It does nothing where it is
# installed already. Where it cannot be installed the test skips; where $CI is set that is a failure.
set -u
cd "$(dirname "$0")"
venv=$(cd ../.. && pwd)/.cache/admin-python

if cmp -s "$venv/requirements.txt" requirements.txt; then exit 0; fi
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
if command -v python3 >/dev/null && python3 -m venv "$venv" &&
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary=:all: \
		--require-hashes --requirement requirements.txt; then
	cp requirements.txt "$venv/requirements.txt"
	exit 0
fi
rm -rf "$venv"
echo "test/admin: schemathesis was not installed: it needs python3 of 3.11 or later, venv and pip; its test skips" >&2
[ -z "${CI:-}" ]
