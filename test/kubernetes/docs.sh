#!/usr/bin/env bash
# docs.sh DOCUMENT...: runs the commands that documents tell people to run: their blocks marked "sh", each document's in one
# shell, in order. The first that fails fails all. It runs in the folder it is called from, where ./charts has to be, and
# the files that the documents ask of their reader. Every document is read by someone whose cluster has come to rest: `kubectl logs` fails
# for a pod that goes between its list and its log.
set -euo pipefail

# rest waits until no pod is on its way out.
rest() {
	local template='{range .items[?(@.metadata.deletionTimestamp)]}{.metadata.name}{"\n"}{end}'
	until [ -z "$(kubectl get pods --all-namespaces --output "jsonpath=$template")" ]; do sleep 0.2; done
}

for document; do
	awk '/^```sh$/ {inside = 1; next} /^```/ {inside = 0} inside' "$document" >commands.sh
	[ -s commands.sh ] || { echo "docs.sh: $document has no commands" >&2; exit 1; }
	rest
	echo "docs.sh: the commands of $document" >&2
	bash -o errexit -o nounset -o pipefail -o xtrace commands.sh
done
