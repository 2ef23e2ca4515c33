#!/usr/bin/env bash
# docs.sh DOCUMENT...: runs the commands that documents tell people to run: their blocks marked "sh", each document's in one
# shell, in order. The first that fails fails all. It runs in the folder it is called from, where ./charts has to be, and
# the files that the documents ask of their reader.
set -euo pipefail

for document; do
	awk '/^```sh$/ {inside = 1; next} /^```/ {inside = 0} inside' "$document" >commands.sh
	[ -s commands.sh ] || { echo "docs.sh: $document has no commands" >&2; exit 1; }
	echo "docs.sh: the commands of $document" >&2
	bash -o errexit -o nounset -o pipefail -o xtrace commands.sh
done
