#!/bin/sh
# Installs schemathesis, which the test of this folder runs, at the version that is pinned here. It does nothing where it is
# installed already. Where it cannot be installed the test skips; where $CI is set that is a failure.
set -u
cd "$(dirname "$0")"
venv=$(cd ../.. && pwd)/.cache/admin-python

if ../python.sh "$venv" requirements.txt; then exit 0; fi
echo "test/admin: schemathesis was not installed: it needs python3 of 3.11 or later, venv and pip; its test skips" >&2
[ -z "${CI:-}" ]
