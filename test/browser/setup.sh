#!/bin/sh
# Installs what the tests of this folder use: Debian's Chromium, and the packages that are pinned in node/. It does nothing where they
# are installed already. What cannot be installed is named, and the tests skip; where $CI is set that is a failure.
set -u
cd "$(dirname "$0")"
missing=0

lacking() {
	echo "test/browser: $1; the tests of the dashboard in a browser skip" >&2
	missing=1
}

chromium_there() { command -v chromium >/dev/null || [ -n "${CHROMIUM:-}" ]; }

if ! chromium_there && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium
fi
chromium_there || lacking "there is no chromium (Debian: apt-get install chromium)"

if ! cmp -s node/node_modules/.installed node/package-lock.json; then
	if ! command -v npm >/dev/null; then
		lacking "there is no npm"
	elif npm --prefix node ci --no-audit --no-fund --loglevel=error; then
		cp node/package-lock.json node/node_modules/.installed
	else
		rm -rf node/node_modules
		lacking "npm ci failed"
	fi
fi
[ "$missing" = 0 ] || [ -z "${CI:-}" ]
