#!/bin/sh
# Installs the analytics engine that reads exports in the test of this folder, at the version that is pinned here. It does nothing
# where it is installed already. Where it cannot be installed the test skips; where $CI is set that is a failure.
set -u
cd "$(dirname "$0")"
venv=$(cd ../.. && pwd)/.cache/engines-python

if ../python.sh "$venv" requirements.txt; then exit 0; fi
echo "test/engines: DuckDB was not installed: it needs python3 of 3.11 or later, venv and pip; its test skips" >&2
[ -z "${CI:-}" ]
