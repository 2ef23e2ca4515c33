package snapshot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
)

// The job service's certificate is of the same authority as the data plane's: it must not get the credentials of
// providers.
func TestARoleIsForCertificatesOfItsName(t *testing.T) {
	named := map[string]string{envoy.RoleEnvoy: "dataplane", envoy.RoleExtProc: "dataplane", envoy.RoleJobs: "jobsvc"}
	for name, c := range map[string]struct {
		names       map[string]string
		certificate []string // nil: none
		role        string
		want        codes.Code
	}{
		"the data plane's Envoy": {named, []string{"dataplane"}, envoy.RoleEnvoy, codes.OK},
		"the data plane's ext_proc service": {named, []string{"other", "dataplane"}, envoy.RoleExtProc,
			codes.OK},
		"the job service": {named, []string{"jobsvc"}, envoy.RoleJobs, codes.OK},
		"the job service as ext_proc service": {named, []string{"jobsvc"}, envoy.RoleExtProc,
			codes.PermissionDenied},
		"the job service as Envoy": {named, []string{"jobsvc"}, envoy.RoleEnvoy,
			codes.PermissionDenied},
		"the data plane as job service": {named, []string{"dataplane"}, envoy.RoleJobs,
			codes.PermissionDenied},
		"whoever has no certificate":                {named, nil, envoy.RoleExtProc, codes.PermissionDenied},
		"any certificate, where no names are given": {nil, []string{"jobsvc"}, envoy.RoleExtProc, codes.OK},
		"no certificate, as on a Unix socket":       {nil, nil, envoy.RoleExtProc, codes.OK},
		"any certificate, for a role that is not limited": {map[string]string{envoy.RoleJobs: "jobsvc"}, []string{"x"},
			envoy.RoleEnvoy, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(Options{Logger: zap.NewNop(), Registerer: prometheus.NewRegistry(), Names: c.names})
			require.NoError(t, err)
			ctx := context.Background()
			if c.certificate != nil {
				ctx = grpcpeer.NewContext(ctx, &grpcpeer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{
					PeerCertificates: []*x509.Certificate{{DNSNames: c.certificate}},
				}}})
			}
			require.NoError(t, callbacks{p}.OnDeltaStreamOpen(ctx, 1, ""))
			err = callbacks{p}.OnStreamDeltaRequest(1, &discoveryv3.DeltaDiscoveryRequest{
				Node: &corev3.Node{Id: "n", Cluster: c.role}, TypeUrl: clusters,
			})
			require.Equal(t, c.want, status.Code(err), "%v", err)
		})
	}
}
