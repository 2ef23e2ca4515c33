package envoygateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/modelgate/modelgate/controlplane/snapshot"
	"github.com/modelgate/modelgate/envoy"
)

// patience bounds how long a call waits until this control plane has the revision that another has announced.
const patience = 2 * time.Second

// Options configure a Server. Every field is required.
type Options struct {
	// Static is for the Envoys of Envoy Gateway.
	Static Static
	Plane  Plane
	Log    *zap.Logger
}

// A Plane knows what Envoys are sent.
type Plane interface {
	Content() (snapshot.Content, <-chan struct{})
	Admit(ctx context.Context, role string) error
	// Shared is told what was given to Envoys that are told of changes.
	Shared(digest string)
}

// A Server answers Envoy Gateway. It is safe for concurrent use.
type Server struct {
	options Options

	mu   sync.Mutex
	said string // problems that were logged last
}

// New returns a Server.
func New(o Options) *Server { return &Server{options: o} }

// service is that of https://github.com/envoyproxy/gateway/blob/v1.9.1/proto/extension/service.proto. Messages are
// carried as fields that Empty does not know, so that no code of Envoy Gateway is needed.
const service = "envoygateway.extension.EnvoyGatewayExtension"

// Register adds the service to a server of gRPC.
func (s *Server) Register(to *grpc.Server) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "PostTranslateModify",
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return s.handle(ctx, decode)
			}}},
	}, s)
}

// handle answers one call.
func (s *Server) handle(ctx context.Context, decode func(any) error) (*emptypb.Empty, error) {
	if err := s.options.Plane.Admit(ctx, envoy.RoleEnvoy); err != nil {
		return nil, err
	}
	in, out := &emptypb.Empty{}, &emptypb.Empty{}
	if err := decode(in); err != nil {
		return nil, err
	}
	table, err := Parse(in.ProtoReflect().GetUnknown())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	wanted := revisions(table)
	content := s.content(ctx, wanted)
	problems, err := Translate(table, OwnOf(content.All()), s.options.Static)
	if err != nil {
		s.options.Log.Error("a translation of Envoy Gateway could not be changed", zap.Error(err))
		return nil, status.Error(codes.Internal, err.Error())
	}
	s.log(problems)
	response, err := table.Response()
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	out.ProtoReflect().SetUnknown(response)
	if len(wanted) > 0 {
		s.options.Plane.Shared(content.Digest)
	}
	return out, nil
}

// content returns what Envoys are sent. It waits for the revision that is wanted: another control plane may have
// announced it.
func (s *Server) content(ctx context.Context, wanted []string) snapshot.Content {
	return s.await(ctx, patience, func(digest string) bool {
		return len(wanted) == 0 || slices.Contains(wanted, digest)
	})
}

// await waits for content that is enough, but no longer than for a time, and returns what there is then.
func (s *Server) await(ctx context.Context, longest time.Duration, enough func(digest string) bool) snapshot.Content {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		now, changed := s.options.Plane.Content()
		if enough(now.Digest) {
			return now
		}
		select {
		case <-ctx.Done():
			return now
		case <-changed:
		}
	}
}

// revisions returns the revisions that marked routes want.
func revisions(t *Table) (wanted []string) {
	for _, routes := range t.Routes {
		for _, host := range routes.GetVirtualHosts() {
			for _, r := range host.GetRoutes() {
				if _, revision, ok := markOf(r); ok && revision != "" {
					wanted = append(wanted, revision)
				}
			}
		}
	}
	return wanted
}

// log logs problems that are not those of the time before: Envoy Gateway asks again and again.
func (s *Server) log(problems []string) {
	text := strings.Join(problems, "; ")
	s.mu.Lock()
	known := s.said == text
	s.said = text
	s.mu.Unlock()
	if !known && text != "" {
		s.options.Log.Warn("rules of HTTPRoutes that are for models have no effect", zap.Strings("problems", problems))
	}
}
