#!/usr/bin/env bash
# Runs the tests, step by step up to the first that fails, and ends with where the time went, what was skipped and what failed.
# What go test has said is kept in .cache/tests.
#
#   test.sh STEP...    steps are the functions below
#   test.sh STEP\& ...    begins a step in the background, after those that were begun before; STEP, later, waits for it
#
# A step in the background has what the others leave of the processors, so nothing in it may depend on time.
# ARGS are further arguments of the chart's test.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
results=$root/.cache/tests
module=$(go list -m)

# events NAME ARGUMENT...: gotestsum, in the module of the working directory, with the results kept under the name.
events() { go tool -modfile="$root/tools/go.mod" gotestsum --jsonfile "$results/$1.json" "${@:2}"; }

# Whole-system cases measure time and memory, which the race detector would change, and run a binary that Go's test cache knows nothing of.
whole_system() { go list ./test/... | grep -v -e /test/ha$ -e /test/house$ -e /test/envoygateway$; }
others() { go list ./... | grep -v /test/; go list ./test/house; }

# starters OPTION...: the packages of ours in which a file that grep finds with the options starts a goroutine.
starters() {
	grep -rlE "$@" '(^|[^[:alnum:]_])go (func|[[:alnum:]_.]+\()|\.(Go|Parallel|RunParallel|AfterFunc|SetFinalizer|AddCleanup)\(|httptest\.New[A-Za-z]*Server|exec\.Command' \
		api cmd controlplane envoy extproc internal jobsvc test/house | xargs -n 1 dirname | sort -u | sed "s#^#$module/#"
}
# concurrent lists the others in which goroutines may meet: their tests start one, or code of ours that is linked with them does.
concurrent() {
	go list -test -f '{{.ImportPath}} {{join .Deps " "}}' $(others) | sed -n 's/^\([^ ]*\)\.test /\1 /p' |
		awk -v linked="$(starters --include='*.go' --exclude='*_test.go')" -v own="$(starters --include='*_test.go')" '
			BEGIN { n = split(linked, all, "\n"); while (n) code[all[n--]]; n = split(own, all, "\n"); while (n) tests[all[n--]] }
			{ meet = $1 in tests; for (i = 1; i <= NF; i++) meet = meet || $i in code; if (meet) print $1 }'
}

# in_memory has tests keep temporary files in memory from now on, if there is room. They write much that has to survive a
# crash of the machine, and would wait for the disk each time. What Go builds stays on the disk.
in_memory() {
	local free available
	free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || true
	available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo 2>/dev/null) || true
	if [ -n "${TMPDIR:-}$memory" ] || ((${free:-0} < 8 << 20 || ${available:-0} < 8 << 20)); then # in KiB
		return
	fi
	memory=$(mktemp -d /dev/shm/modelgate.XXXXXX)
	chmod 755 "$memory" # PostgreSQL runs as another user
	under=(-exec "env TMPDIR=$memory")
}
memory="" # the folder of in_memory
under=()  # what go test runs the tests under

services() { tools/services/install.sh; }
# It says what go test would say of the packages, which is why the steps below have -vet=off.
vet() { GOGC=200 go vet ./... && go vet -tags steps ./internal/testenv/work; }
# They wait more than they compute.
unit() { events unit --format pkgname -- -vet=off -timeout 30m -p 4 -parallel 8 -skip InProportion $(others); }
# They only compute, in one goroutine at a time, ten to twenty times slower if the race detector sees each access. What
# shares them is seen.
uninstrumented=(-gcflags={modernc.org/libc,modernc.org/sqlite/lib,$module/internal/scan}=-race=false)
# The race detector needs a C compiler, and something to find.
race() {
	local meet
	meet=$(concurrent | sort)
	in_memory
	events race --format pkgname --raw-command -- env CGO_ENABLED=1 \
		go test -json "${under[@]}" -vet=off -timeout 30m -p 3 -parallel 4 -race "${uninstrumented[@]}" -skip InProportion $meet
	events unit --format pkgname -- "${under[@]}" -vet=off -timeout 30m -p 3 -skip InProportion $(others | sort | comm -23 - <(echo "$meet"))
}
# They count the steps of our code, and of the libraries that read JSON, with the counters of coverage.
proportion() {
	local packages counted
	packages=$(grep -rl --include='*_test.go' '^func Test.*InProportion' ./{api,cmd,controlplane,envoy,extproc,internal,jobsvc} | xargs -n 1 dirname | sort -u)
	counted=$(go list -tags steps -test -deps $packages | sed -n "s#^\($module/[^ ]*\).*#\1#p" | grep -v '[._]test$' | sort -u | paste -sd,)
	events proportion --format pkgname -- -vet=off -tags steps -covermode atomic -ldflags -checklinkname=0 \
		-coverpkg "$counted,github.com/tidwall/gjson,github.com/go-json-experiment/json/..." -run InProportion $packages |
		cut -c 1-160 # it lists them all
}
# The first time Helm is built, and what two architectures need.
modules() {
	for folder in charts tools tools/release; do (cd $folder && events "${folder//\//-}" --format pkgname -- -timeout 45m ./...); done
}
# Control planes of others, which are built the first time: a quarter of an hour, so it is no step of test-all.
mesh() {
	test/kubernetes/run.sh --prepare
	test/envoygateway/setup.sh
	events envoygateway --format pkgname -- -vet=off -count=1 -timeout 15m ./test/envoygateway
	(cd test/istio && events istio --format pkgname -- -timeout 45m ./...)
}
clients() { for suite in sdk agents browser admin reports engines; do test/$suite/setup.sh; done; }
# They wait half of the time. All run the binary that is built first.
system() {
	go build -ldflags='-s -w' -o "$root/.cache/modelgate" ./cmd/modelgate
	in_memory
	MODELGATE_BINARY=$root/.cache/modelgate events system --format testname --hide-summary=output -- \
		"${under[@]}" -vet=off -timeout 45m -count=1 -p 3 -parallel 3 $(whole_system)
}
ha() { MODELGATE_ALL=1 events ha --format standard-verbose --hide-summary=output -- -vet=off -count=1 -parallel 2 -timeout 10m ./test/ha; }
# What the chart's test is run from. It builds Kubernetes the first time.
cluster() { test/kubernetes/run.sh --prepare; }
# It prints text, not events.
chart() {
	# shellcheck disable=SC2086 # one word an argument
	events chart --format standard-verbose --hide-summary=output --raw-command -- go tool test2json -t -p "$module/test/kubernetes" test/kubernetes/run.sh ${ARGS:-}
}

# The linters and generators are built here, and what they read was compiled by vet.
lint() { make lint; }
fresh() { make fresh; }

finish() {
	local status=$?
	[ -z "$memory" ] || rm -rf "$memory"
	[ ${#begun[@]} = 0 ] || kill -- "${begun[@]/#/-}" 2>/dev/null || true
	[ -z "$step" ] || echo "$step $((SECONDS - since)) $status" >>"$results/steps"
	go -C tools run ./testreport "$results" || true
	exit $status
}

# begin STEP: in the background, once the last that was begun there has ended.
begin() {
	set -m # a group of processes of its own, which finish can end
	{
		renice -n 19 $BASHPID >/dev/null
		[ -z "$last" ] || tail --pid="$last" -f /dev/null
		SECONDS=0
		set +e
		(set -e && "$1")
		status=$?
		echo "$1& $SECONDS 0" >>"$results/steps"
		exit $status
	} >"$results/$1.log" 2>&1 </dev/null &
	set +m
	last=$!
	begun[$1]=$last
}
# await STEP: until it has ended in the background.
await() {
	local status=0
	wait "${begun[$1]}" || status=$?
	unset "begun[$1]"
	cat "$results/$1.log"
	return $status
}

declare -A begun=() # the process ids of steps in the background
last=""
step=""
rm -rf "$results"
mkdir -p "$results"
trap finish EXIT
for step; do
	since=$SECONDS
	case $step in
	*'&')
		begin "${step%&}"
		continue
		;;
	esac
	if [ -n "${begun[$step]:-}" ]; then await "$step"; else "$step"; fi
	echo "$step $((SECONDS - since)) 0" >>"$results/steps"
done
step=""
