#!/usr/bin/env bash
# Makes in FOLDER what the cluster is run from: links to the parts of Kubernetes under their names, modelgate and the test itself.
# Kubernetes is kept in .cache under the hash of its sources and built again only when that changes: it takes about ten minutes once.
#
#   setup.sh FOLDER    exits with 3 where this machine cannot run the cluster
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$1
kept=$root/.cache/kubernetes

packages="containerd runc containernetworking-plugins iptables nftables conntrack umoci openssl"
tools="containerd ctr runc iptables nft conntrack umoci openssl unshare nsenter"

missing() {
	for tool in $tools; do command -v "$tool" >/dev/null 2>&1 || echo "$tool"; done
	[ -x /usr/lib/cni/ptp ] || echo /usr/lib/cni/ptp
}

cannot() {
	echo "test-chart: $1; the chart is not installed into a cluster" >&2
	[ -z "${CI:-}" ] || exit 1
	exit 3
}

[ "$(uname -s)" = Linux ] || cannot "not Linux"
[ "$(id -u)" = 0 ] || cannot "not root, which a kubelet needs"
if [ -n "$(missing)" ] && command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	# shellcheck disable=SC2086 # one word a package
	apt-get update --quiet --quiet && apt-get install --quiet --quiet --yes --no-install-recommends $packages >/dev/null || true
fi
[ -z "$(missing)" ] || cannot "not installed: $(missing | tr '\n' ' ')(Debian: apt install $packages)"
[ -n "$(command -v redis-server)" ] && ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || cannot "redis or postgresql is missing (tools/services/install.sh)"

# built FLAGS: builds Kubernetes, unless what its files say was built before, and prints where it is.
built() {
	local hash target
	hash=$(cd "$here/ktest" && { cat -- *.go go.mod go.sum; echo "$1"; go env GOVERSION GOARCH; } | sha256sum | cut -c1-12)
	target=$kept/ktest-$hash
	if [ ! -x "$target" ]; then
		echo "test-chart: building Kubernetes, which is kept in .cache/kubernetes" >&2
		rm -f "$kept/ktest"-*
		(cd "$here/ktest" && CGO_ENABLED=0 GOFLAGS= go build -trimpath -buildvcs=false -ldflags "-s -w $1" -o "$target.new")
		mv "$target.new" "$target"
	fi
	echo "$target"
}

mkdir -p "$bin" "$kept"
version=$(cd "$here/ktest" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}
ktest=$(built "-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${minor%%.*}")
for part in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy coredns metrics-server kubectl helm; do
	ln -sf "$ktest" "$bin/$part"
done

(cd "$root" && CGO_ENABLED=0 go build -trimpath -o "$bin/modelgate" ./cmd/modelgate)
cd "$here"
go vet ./...
go test ./netpol >&2
CGO_ENABLED=0 go build -trimpath -o "$bin/" ./pause ./netpol
CGO_ENABLED=0 go test -c -trimpath -o "$bin/chart.test" .
