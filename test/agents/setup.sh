#!/bin/sh
# Installs the coding agents, at the versions that are pinned here. It does nothing where they are installed already. What cannot
# be installed is named, and its cases skip; where $CI is set that is a failure. No script of a package is run: the agents are
# programs that the packages bring.
set -u
cd "$(dirname "$0")"

if cmp -s node_modules/.installed package-lock.json; then exit 0; fi
if command -v npm >/dev/null && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error; then
	cp package-lock.json node_modules/.installed
	exit 0
fi
rm -rf node_modules
echo "test/agents: the agents were not installed: there is no npm, or npm ci failed; their cases skip" >&2
[ -z "${CI:-}" ]
