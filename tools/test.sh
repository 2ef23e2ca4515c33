#!/usr/bin/env bash
# Runs the tests, step by step up to the first that fails, and ends with where the time went, what was skipped and what failed.
# What go test has said is kept in .cache/tests.
#
#   test.sh STEP...    steps are the functions below
#
# ARGS are further arguments of the chart's test.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
results=$root/.cache/tests
module=$(go list -m)

# events NAME ARGUMENT...: gotestsum, in the module of the working directory, with the results kept under the name.
events() { go tool -modfile="$root/tools/go.mod" gotestsum --jsonfile "$results/$1.json" "${@:2}"; }

# Whole-system cases measure time and memory, which the race detector would change, and run a binary that Go's test cache knows nothing of.
whole_system() { go list ./test/... | grep -v -e /test/ha$ -e /test/house$; }
others() { go list ./... | grep -v /test/; echo ./test/house; }

services() { tools/services/install.sh; }
vet() { go vet ./...; }
# They wait more than they compute.
unit() { events unit --format pkgname -- -timeout 30m -p 4 -parallel 8 -skip InProportion $(others); }
# The race detector needs a C compiler.
race() {
	events race --format pkgname --raw-command -- env CGO_ENABLED=1 \
		go test -json -timeout 30m -parallel 4 -race -skip InProportion $(others)
}
# They count the steps of our code, and of the libraries that read JSON, with the counters of coverage.
proportion() {
	events proportion --format pkgname -- -tags steps -covermode atomic -ldflags -checklinkname=0 \
		-coverpkg "$module/...,github.com/tidwall/gjson,github.com/go-json-experiment/json/..." \
		-run InProportion ./internal/testenv/work ./extproc/exchange ./internal/guard ./internal/provider/dialects/...
}
# The first time Helm is built, and what two architectures need.
modules() {
	for folder in charts tools tools/image; do (cd $folder && events "${folder//\//-}" --format pkgname -- -timeout 30m ./...); done
}
clients() { for suite in sdk agents browser admin reports; do test/$suite/setup.sh; done; }
system() { events system --format testname --hide-summary=output -- -timeout 45m -count=1 -p 2 $(whole_system); }
ha() { MODELGATE_ALL=1 events ha --format standard-verbose --hide-summary=output -- -count=1 -parallel 2 -timeout 10m ./test/ha; }
# It prints text, not events.
chart() {
	# shellcheck disable=SC2086 # one word an argument
	events chart --format standard-verbose --hide-summary=output --raw-command -- go tool test2json -t -p "$module/test/kubernetes" test/kubernetes/run.sh ${ARGS:-}
}

finish() {
	local status=$?
	[ -z "$step" ] || echo "$step $((SECONDS - since)) $status" >>"$results/steps"
	go -C tools run ./testreport "$results" || true
	exit $status
}

rm -rf "$results"
mkdir -p "$results"
step=""
trap finish EXIT
for step; do
	since=$SECONDS
	"$step"
	echo "$step $((SECONDS - since)) 0" >>"$results/steps"
done
step=""
