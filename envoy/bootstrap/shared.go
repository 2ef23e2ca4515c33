package bootstrap

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/modelgate/modelgate/envoy"
)

// Shared returns the clusters of a bootstrap that an Envoy needs whose control plane is of others, and the secrets
// that they name, which come from that control plane. The files are on Envoy's machine, and it follows them.
func Shared(extProc Addresses, files *TLS) ([]*clusterv3.Cluster, []*tlsv3.Secret, error) {
	c, err := extProcCluster(Options{ExtProc: extProc, ExtProcTLS: files, secretsOverADS: true})
	if err != nil {
		return nil, nil, fmt.Errorf("the ext_proc cluster: %w", err)
	}
	var secrets []*tlsv3.Secret
	if files != nil {
		secrets = files.secrets(envoy.ClusterExtProc)
	}
	return []*clusterv3.Cluster{c, deadEnd()}, secrets, nil
}
