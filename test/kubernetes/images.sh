#!/usr/bin/env bash
# Makes the images of the cluster from files of this machine, without a registry, as archives in OCI's layout. What is in them is real: our
# binary, the pinned Envoy, etcd, and Debian's Redis and PostgreSQL with the libraries they link. All but ours are kept until they change.
#
#   images.sh BIN FOLDER    BIN as setup.sh made it; writes FOLDER/*.tar
set -euo pipefail
bin=$1
out=$2
envoy=$(readlink -f "${MODELGATE_ENVOY:?path of an Envoy}")
etcd=$(readlink -f "$bin/etcd")
redis=$(readlink -f "$(command -v redis-server)")
postgres=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
layout=$out/oci
root=$out/root

# copy FILE...: programs to where they are on this machine, and with them what they are linked to.
copy() {
	local file library
	for file in "$@"; do
		install -D "$file" "$root$file"
		{ ldd "$file" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r library; do
			[ -e "$root$library" ] || install -D "$library" "$root$library"
		done
	done
}

# image NAME ENTRYPOINT: an image of $root, which is empty afterwards.
image() {
	mkdir -p "$root/tmp"
	umoci new --image "$layout:$1"
	umoci insert --image "$layout:$1" "$root" /
	umoci config --image "$layout:$1" --config.entrypoint "$2" --config.user 65532:65532 --os linux --architecture "$(go env GOARCH)"
	rm -rf "$root"
}

# archive NAME FUNCTION: what the function makes images of.
archive() {
	rm -rf "$layout" "$root"
	umoci init --layout "$layout"
	"$2"
	tar -C "$layout" -cf "$out/$1.new" .
	mv "$out/$1.new" "$out/$1.tar"
	rm -rf "$layout"
}

ours() {
	install -D "$bin/modelgate" "$root/modelgate"
	image modelgate /modelgate
	install -D "$bin/pause" "$root/pause"
	image pause /pause
}

others() {
	copy "$envoy"
	mkdir -p "$root/usr/local/bin"
	mv "$root$envoy" "$root/usr/local/bin/envoy"
	image envoy /usr/local/bin/envoy

	install -D "$etcd" "$root/usr/local/bin/etcd"
	image etcd /usr/local/bin/etcd

	copy "$redis"
	[ "$redis" = /usr/bin/redis-server ] || ln -s "$redis" "$root/usr/bin/redis-server"
	image redis /usr/bin/redis-server

	# What initdb and the server need, and what the chart's start script does.
	copy "$postgres/postgres" "$postgres/initdb" /bin/sh /bin/rm /bin/mv
	find "${postgres%/bin}/lib" -name '*.so' ! -name 'llvmjit*' -exec cp --parents {} "$root" \;
	cp -R --parents "/usr/share/postgresql/$(basename "${postgres%/bin}")" /usr/share/zoneinfo "$root"
	image postgres /bin/sh
}

mkdir -p "$out"
kept=others-$({ stat --format '%n %s %Y' "$envoy" "$etcd" "$redis" "$postgres/postgres"; cat "$0"; } | sha256sum | cut -c1-12)
if [ ! -e "$out/$kept.tar" ]; then
	rm -f "$out"/*.tar
	archive "$kept" others
fi
archive ours ours
