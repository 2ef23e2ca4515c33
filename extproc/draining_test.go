package extproc

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// TestAProcessThatEndsDoesNotWaitForEnvoysLog has an Envoy go on with its log, as beside a process that is being
// replaced. The process ends when its last exchange has, and not when its grace is over.
func TestAProcessThatEndsDoesNotWaitForEnvoysLog(t *testing.T) {
	s := newServer(t, &exchange.Config{}, zap.NewNop())
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l, time.Hour) }()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	log, err := accesslogv3.NewAccessLogServiceClient(conn).StreamAccessLogs(t.Context())
	require.NoError(t, err)
	require.NoError(t, log.Send(&accesslogv3.StreamAccessLogsMessage{}))

	open, err := s.carriers.Open(nil, carrier.Traits{Role: envoy.RoleUpstream})
	require.NoError(t, err)
	stop()
	select {
	case err := <-ended:
		t.Fatalf("it has ended with an exchange that is open: %v", err)
	case <-time.After((quietIntervals + 5) * drainInterval):
	}
	require.Error(t, open.Close(), "it had no message")
	require.Equal(t, codes.Unavailable, status.Code(log.RecvMsg(new(accesslogv3.StreamAccessLogsResponse))))
	require.NoError(t, <-ended)
}
