#!/bin/sh
# Installs the packages that a file of requirements pins into a virtual environment: python.sh VENV REQUIREMENTS. It does nothing where
# they are installed already. Where they cannot be installed it leaves nothing, and fails.
set -u
venv=$1
requirements=$2

if cmp -s "$venv/requirements.txt" "$requirements"; then exit 0; fi
rm -rf "$venv"
mkdir -p "$(dirname "$venv")"
if command -v python3 >/dev/null && python3 -m venv "$venv" &&
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --only-binary=:all: \
		--require-hashes --requirement "$requirements"; then
	cp "$requirements" "$venv/requirements.txt"
	exit 0
fi
rm -rf "$venv"
exit 1
