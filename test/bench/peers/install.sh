#!/bin/sh
# Installs the peers that the benchmark measures beside the gateway: install.sh FOLDER.
# Envoy AI Gateway is built from its Go module, which the first time takes many minutes; LiteLLM comes from PyPI, and
# Portkey from npm.
# A peer that cannot be installed is said, and left out: the report of the benchmark names it as not measured.
set -u

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)

absent() {
	rm -rf "${folder:?}/$2" # what an earlier run has left is of another version
	echo "$1 is not installed, and will not be measured: $3" >&2
}

go -C "$here" build -trimpath -ldflags='-s -w' -o "$folder/aigw" github.com/envoyproxy/ai-gateway/cmd/aigw ||
	absent "Envoy AI Gateway" aigw "its module could not be built"

"$here/../../python.sh" "$folder/litellm" "$here/requirements.txt" ||
	absent LiteLLM litellm "python3 has no venv (Debian: apt install python3-venv), or the package could not be had"

mkdir -p "$folder/portkey" && cp "$here/portkey/package.json" "$here/portkey/package-lock.json" "$folder/portkey" &&
	npm --prefix "$folder/portkey" ci --ignore-scripts --no-audit --no-fund --loglevel=error ||
	absent Portkey portkey "there is no npm, or the package could not be had"
