#!/usr/bin/env bash
# Installs the chart into a real Kubernetes and proves what it promises. Nothing is left behind but logs, in .cache/kubernetes/run.
#
#   run.sh [-test.run REGEXP ...]    arguments are those of a Go test
#   run.sh --prepare                 makes what the cluster is run from, and no more
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
kept=$root/.cache/kubernetes
bin=$kept/bin

mkdir -p "$kept"
exec 9>"$kept/lock" # one cluster at a time
flock 9
code=0
"$here/setup.sh" "$bin" || code=$?
[ $code != 3 ] || exit 0
[ $code = 0 ] || exit $code
"$here/images.sh" "$bin" "$kept/images"
[ "${1:-}" != --prepare ] || exit 0
# A copy, which nobody edits while it is installed and upgraded.
rm -rf "$kept/chart"
cp -R "$root/charts/modelgate" "$kept/chart"
CHART=$kept/chart VALUES=$here/values.yaml exec "$here/cluster.sh" "$bin" "$kept/images" "$kept/run" -- \
	"$bin/chart.test" -test.v -test.timeout 20m "$@"
