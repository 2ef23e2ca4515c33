#!/usr/bin/env bash
# Runs COMMAND in a real Kubernetes of one node: API server, controllers, scheduler, kubelet with containerd and runc, kube-proxy, CoreDNS,
# metrics-server, and netpol for network policies. All of it lives in namespaces of its own (mount, network, processes), so that the end
# of COMMAND, however it comes, ends every process and container too.
#
#   cluster.sh BIN IMAGES WORK -- COMMAND...    BIN of setup.sh, IMAGES the folder of images.sh, WORK a folder that is made anew
#
# COMMAND has kubectl and helm on its PATH, KUBECONFIG, and NODE_IP. Logs are in WORK/logs.
set -euo pipefail
node=10.88.0.1   # of the node, of DNS, and the gateway of pods
services=10.96.0.0/16
pods=10.88.0.0/24
group=modelgate-test

# A hierarchy of control groups of our own: in version 1 one for each controller.
groups() {
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup/$group; return; fi
	for controller in cpu cpuacct cpuset memory pids devices freezer blkio hugetlb systemd unified; do
		if [ -d /sys/fs/cgroup/$controller ]; then echo /sys/fs/cgroup/$controller/$group; fi
	done
}

outside() {
	rm -rf "$work"
	mkdir -p "$work"
	for folder in $(groups); do mkdir -p "$folder"; done
	if [ -d /sys/fs/cgroup/cpuset ]; then
		for file in cpuset.cpus cpuset.mems; do cat /sys/fs/cgroup/cpuset/$file >/sys/fs/cgroup/cpuset/$group/$file; done
	fi
	local code=0
	unshare --mount --net --pid --fork --kill-child --mount-proc --propagation private "$0" --inside "$bin" "$images" "$work" -- "$@" || code=$?
	for folder in $(groups); do find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
	find "$work" -mindepth 1 -maxdepth 1 ! -name logs ! -name podlogs -exec rm -rf {} + || true
	exit "$code"
}

say() { printf 'cluster: %5ss %s\n' "$SECONDS" "$*" >&2; }

# run NAME COMMAND...: in the background, with its log and its process id.
run() {
	local name=$1
	shift
	"$@" >"logs/$name.log" 2>&1 &
	echo $! >"$name.pid"
}

# until_true SECONDS WHAT COMMAND...: waits for a condition, and no longer.
until_true() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $end ]; then say "gave up waiting for $what"; tail -n 3 logs/*.log >&2; exit 1; fi
		sleep 0.1
	done
	say "$what"
}

network() {
	mount --make-rshared /
	# What daemons keep outside of WORK goes with the mount namespace.
	for folder in /run/containerd /run/netns /var/lib/kubelet /var/log/pods /var/log/containers; do
		mkdir -p $folder
		mount -t tmpfs tmpfs $folder
	done
	mount --make-shared /run/netns
	ip link set lo up
	ip link add node0 type bridge # not every kernel has dummies
	ip address add $node/32 dev node0
	ip link set node0 up
	ip route add $services dev node0 src $node
	echo 1 >/proc/sys/net/ipv4/ip_forward
}

# certificate NAME SUBJECT NAMES
certificate() {
	openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "$2" 2>/dev/null |
		openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -out "$1.crt" -days 3 -extfile <(echo "subjectAltName=$3") 2>/dev/null
}

identities() {
	openssl genrsa -out sa.key 2048 2>/dev/null
	openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
	openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=test -days 3 2>/dev/null
	certificate api /CN=kube-apiserver "DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:$node"
	certificate api-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client DNS:client
	certificate front-proxy /CN=front-proxy DNS:client
	certificate kubelet /CN=system:node:node1 "DNS:node1,IP:$node"
	printf '%s\n' 'admin,admin,1,"system:masters"' controllers,system:kube-controller-manager,2 scheduler,system:kube-scheduler,3 \
		proxy,system:kube-proxy,4 'kubelet,system:node:node1,5,"system:nodes"' >tokens.csv
	for user in admin controllers scheduler proxy kubelet; do
		cat >$user.kubeconfig <<-END
			apiVersion: v1
			kind: Config
			clusters: [{name: test, cluster: {server: "https://$node:6443", certificate-authority: $work/ca.crt}}]
			users: [{name: $user, user: {token: $user}}]
			contexts: [{name: test, context: {cluster: test, user: $user}}]
			current-context: test
		END
	done
}

# The token of admin is "admin": nothing outside of the network namespace reaches the API server.
ask() { curl --silent --fail --max-time 5 --cacert ca.crt --header 'Authorization: Bearer admin' "https://$node:6443$1"; }

api() {
	run etcd etcd --data-dir etcd --listen-client-urls http://127.0.0.1:12379 --advertise-client-urls http://127.0.0.1:12379 \
		--listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 \
		--initial-cluster default=http://127.0.0.1:12380 --unsafe-no-fsync
	run kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:12379 --secure-port=6443 --advertise-address=$node \
		--tls-cert-file=api.crt --tls-private-key-file=api.key --client-ca-file=ca.crt --service-cluster-ip-range=$services \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=sa.pub --service-account-signing-key-file=sa.key \
		--token-auth-file=tokens.csv --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
		--kubelet-client-certificate=api-kubelet.crt --kubelet-client-key=api-kubelet.key --kubelet-preferred-address-types=InternalIP \
		--enable-aggregator-routing=true --requestheader-client-ca-file=ca.crt --requestheader-allowed-names=front-proxy \
		--requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
		--requestheader-extra-headers-prefix=X-Remote-Extra- --proxy-client-cert-file=front-proxy.crt --proxy-client-key-file=front-proxy.key
}

containers() {
	mkdir -p ctd/cni
	cat >ctd/config.toml <<-END
		version = 2
		root = "$work/ctd/root"
		state = "$work/ctd/state"
		[grpc]
		  address = "$work/ctd/socket"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:test"
		  restrict_oom_score_adj = true
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$work/ctd/cni"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
	END
	# ptp and not bridge: what pods say to each other is forwarded by the node, where policies can look at it.
	cat >ctd/cni/10-ptp.conflist <<-END
		{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "$work/ctd/ipam", "ranges": [[{"subnet": "$pods"}]],
		   "routes": [{"dst": "0.0.0.0/0"}]}}]}
	END
	run containerd containerd -c ctd/config.toml
	until_true 30 "containerd answers" ctr -a ctd/socket version
	local archive name
	for archive in "$images"/*.tar; do ctr -a ctd/socket -n k8s.io images import --base-name localhost/images "$archive" >/dev/null; done
	for name in $(ctr -a ctd/socket -n k8s.io images list --quiet | sed -n 's#^localhost/images:##p'); do
		ctr -a ctd/socket -n k8s.io images tag "localhost/images:$name" "localhost/$name:test" >/dev/null
	done
	say "images are imported"
}

# Once the API server has made its first objects.
controllers() {
	run kube-controller-manager kube-controller-manager --kubeconfig=controllers.kubeconfig --authentication-kubeconfig=controllers.kubeconfig \
		--authorization-kubeconfig=controllers.kubeconfig --service-account-private-key-file=sa.key --root-ca-file=ca.crt \
		--cluster-signing-cert-file=ca.crt --cluster-signing-key-file=ca.key --use-service-account-credentials=true --leader-elect=false \
		--cert-dir="$work/controllers" --horizontal-pod-autoscaler-sync-period=3s --horizontal-pod-autoscaler-initial-readiness-delay=5s \
		--horizontal-pod-autoscaler-cpu-initialization-period=10s
	run kube-scheduler kube-scheduler --kubeconfig=scheduler.kubeconfig --authentication-kubeconfig=scheduler.kubeconfig \
		--authorization-kubeconfig=scheduler.kubeconfig --leader-elect=false --cert-dir="$work/scheduler"
}

kubelet_settings() {
	local v1=""
	[ -e /sys/fs/cgroup/cgroup.controllers ] || v1="failCgroupV1: false"
	cat >kubelet.yaml <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		$v1
		cgroupDriver: cgroupfs
		cgroupRoot: /$group
		oomScoreAdj: 0
		failSwapOn: false
		containerRuntimeEndpoint: unix://$work/ctd/socket
		authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $work/ca.crt}}
		authorization: {mode: Webhook}
		tlsCertFile: $work/kubelet.crt
		tlsPrivateKeyFile: $work/kubelet.key
		clusterDNS: [$node]
		clusterDomain: cluster.local
		evictionHard: {memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%"}
		imageGCHighThresholdPercent: 100
		podLogsDir: $work/podlogs
		# Changed Secrets reach pods within seconds, in place of a minute or more.
		syncFrequency: 5s
		configMapAndSecretChangeDetectionStrategy: Watch
		crashLoopBackOff: {maxContainerRestartPeriod: 5s}
	END
}

machine() {
	kubelet_settings
	run kubelet kubelet --config kubelet.yaml --kubeconfig kubelet.kubeconfig --root-dir "$work/kubelet" --hostname-override node1 --node-ip $node
	cat >proxy.yaml <<-END
		apiVersion: kubeproxy.config.k8s.io/v1alpha1
		kind: KubeProxyConfiguration
		mode: iptables
		clientConnection: {kubeconfig: $work/proxy.kubeconfig}
		hostnameOverride: node1
		clusterCIDR: $pods
		conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
	END
	run kube-proxy kube-proxy --config proxy.yaml
	printf '.:53 {\n bind %s\n errors\n cache 5\n kubernetes cluster.local in-addr.arpa {\n  kubeconfig %s/admin.kubeconfig\n }\n}\n' $node "$work" >Corefile
	run coredns coredns -conf Corefile
	run netpol netpol -server "https://$node:6443" -ca ca.crt -token admin
	run metrics-server metrics-server --kubeconfig=admin.kubeconfig --authentication-kubeconfig=admin.kubeconfig \
		--authorization-kubeconfig=admin.kubeconfig --secure-port=4443 --cert-dir="$work/metrics" --kubelet-insecure-tls \
		--kubelet-preferred-address-types=InternalIP --metric-resolution=10s --kubelet-request-timeout=5s
}

# metrics-server runs beside the cluster, and is found by a Service without a selector.
metrics_service() {
	kubectl apply --filename - >/dev/null <<-END
		{apiVersion: v1, kind: List, items: [
		 {apiVersion: v1, kind: Service, metadata: {name: metrics-server, namespace: kube-system}, spec: {ports: [{name: https, port: 443, targetPort: 4443}]}},
		 {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
		  metadata: {name: metrics-server-1, namespace: kube-system, labels: {kubernetes.io/service-name: metrics-server}},
		  ports: [{name: https, port: 4443, protocol: TCP}], endpoints: [{addresses: [$node], conditions: {ready: true}}]},
		 {apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io},
		  spec: {group: metrics.k8s.io, version: v1beta1, service: {name: metrics-server, namespace: kube-system},
		   insecureSkipTLSVerify: true, groupPriorityMinimum: 100, versionPriority: 100}}]}
	END
}

node_ready() { ask /api/v1/nodes/node1 | grep -q '"reason": "KubeletReady"'; }

inside() {
	cd "$work"
	mkdir -p logs kubelet podlogs
	network
	identities
	export PATH="$bin:$PATH" KUBECONFIG="$work/admin.kubeconfig" NODE_IP=$node
	export HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm
	api
	containers
	until_true 60 "the API server is ready" ask /readyz
	controllers
	machine
	metrics_service
	until_true 60 "the node is ready" node_ready
	for file in *.pid; do kill -0 "$(cat "$file")" || { say "${file%.pid} has ended"; tail -n 5 "logs/${file%.pid}.log" >&2; exit 1; }; done
	"$@"
}

mode=outside
if [ "$1" = --inside ]; then mode=inside; shift; fi
bin=$1 images=$2 work=$3
shift 4
$mode "$@"
