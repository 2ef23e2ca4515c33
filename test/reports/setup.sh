#!/bin/sh
# Installs httpx with HTTP/2, which cases of this folder ask with, at the version that is pinned here. It does nothing where it is
# installed already. Where it cannot be installed the cases of it skip; where $CI is set that is a failure. curl and a JDK of 11 or
# later, which others ask with, are the system's: the cases of those that are missing skip.
set -u
cd "$(dirname "$0")"
venv=$(cd ../.. && pwd)/.cache/reports-python

if ../python.sh "$venv" requirements.txt; then exit 0; fi
echo "test/reports: httpx was not installed: it needs python3 of 3.10 or later, venv and pip; its cases skip" >&2
[ -z "${CI:-}" ]
