#!/bin/sh
# Installs the servers that tests use, Debian's: Redis, PostgreSQL, Prometheus (with promtool) and Chromium. It does nothing where they
# are there already. What cannot be installed is named, and the cases that need it skip; where $CI is set that is a failure.
set -u
missing=""

# need PACKAGE COMMAND...: one of the commands, or the package.
need() {
	package=$1
	shift
	for command in "$@"; do
		if command -v "$command" >/dev/null 2>&1; then return; fi
	done
	for binary in /usr/lib/postgresql/*/bin/"$1"; do
		if [ -x "$binary" ]; then return; fi
	done
	missing="$missing $package"
}

need redis-server redis-server valkey-server
need postgresql postgres
need prometheus promtool
need chromium chromium chromium-browser google-chrome
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086 # one word a package
	if apt-get update --quiet --quiet && apt-get install --quiet --quiet --yes --no-install-recommends $missing >/dev/null; then exit 0; fi
fi
echo "tests: not installed:$missing; the cases that need them skip (Debian: apt install$missing)" >&2
[ -z "${CI:-}" ]
