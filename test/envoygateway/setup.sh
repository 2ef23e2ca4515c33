#!/bin/sh
# Builds Envoy Gateway, at the version of gateway/go.mod, into .cache/envoy-gateway. It does nothing if it is built already. If it
# cannot be built, its cases skip; with $CI that is a failure.
set -u
cd "$(dirname "$0")"

cache=../../.cache/envoy-gateway
if [ -x "$cache/envoy-gateway" ] && cmp -s "$cache/go.sum" gateway/go.sum; then exit 0; fi
mkdir -p "$cache"
if go build -C gateway -trimpath -ldflags='-s -w' -o "../$cache/envoy-gateway" github.com/envoyproxy/gateway/cmd/envoy-gateway; then
	rm -rf "$cache/crds" # of Gateway API and of its own
	cp -r "$(go list -C gateway -m -f '{{.Dir}}' github.com/envoyproxy/gateway)/charts/gateway-helm/charts/crds/crds" "$cache/crds"
	chmod -R u+w "$cache/crds"
	cp gateway/go.sum "$cache/go.sum"
	exit 0
fi
echo "test/envoygateway: Envoy Gateway was not built; its cases skip" >&2
[ -z "${CI:-}" ]
