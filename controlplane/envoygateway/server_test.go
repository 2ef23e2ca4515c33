package envoygateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/modelgate/modelgate/controlplane/snapshot"
)

// A plane has no resources, only digests.
type plane struct {
	mu      sync.Mutex
	digest  string
	changed chan struct{}
	refuses error
	shared  string
	asked   chan struct{} // for each time
}

func (p *plane) Content() (snapshot.Content, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.asked <- struct{}{}:
	default:
	}
	return snapshot.Content{Digest: p.digest}, p.changed
}

func (p *plane) Admit(context.Context, string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuses
}

func (p *plane) Shared(digest string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shared = digest
}

// serve returns what calls a Server over gRPC, as Envoy Gateway does.
func serve(t *testing.T, p *plane) func(request []byte) ([]byte, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	New(Options{Plane: p, Log: zap.NewNop()}).Register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return func(request []byte) ([]byte, error) {
		in, out := &emptypb.Empty{}, &emptypb.Empty{}
		in.ProtoReflect().SetUnknown(request)
		err := connection.Invoke(t.Context(), "/envoygateway.extension.EnvoyGatewayExtension/PostTranslateModify", in, out)
		return out.ProtoReflect().GetUnknown(), err
	}
}

func TestOnlyWhoMayHaveWhatEnvoysHaveIsAnswered(t *testing.T) {
	p := &plane{refuses: status.Error(codes.PermissionDenied, "the certificate is not for dataplane")}
	call := serve(t, p)
	_, err := call(nil)
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	p.mu.Lock()
	p.refuses = nil
	p.mu.Unlock()
	_, err = call(nil)
	require.NoError(t, err)
	_, err = call([]byte{2<<3 | 2, 1, 0xff})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

// Another control plane has announced a revision that this one has not read yet.
func TestARevisionThatIsWantedIsAwaited(t *testing.T) {
	shown := table(t)
	for _, routes := range shown.Routes {
		for _, host := range routes.GetVirtualHosts() {
			for _, r := range host.GetRoutes() {
				if _, _, ok := markOf(r); ok {
					said := r.GetMetadata().GetFilterMetadata()["envoy-gateway"].GetFields()["resources"].GetListValue()
					said.GetValues()[0].GetStructValue().GetFields()["annotations"] = structpb.NewStructValue(
						&structpb.Struct{Fields: map[string]*structpb.Value{revisionKey: structpb.NewStringValue("r2")}})
				}
			}
		}
	}
	var request []byte
	require.NoError(t, errors.Join(write(&request, requestRoutes, shown.Routes),
		write(&request, requestListeners, shown.Listeners)))
	p := &plane{digest: "r1", changed: make(chan struct{}), asked: make(chan struct{}, 1)}
	call := serve(t, p)
	answered := make(chan error)
	go func() {
		_, err := call(request)
		answered <- err
	}()
	<-p.asked
	p.mu.Lock()
	p.digest = "r2"
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	require.NoError(t, <-answered)
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, "r2", p.shared)
}
