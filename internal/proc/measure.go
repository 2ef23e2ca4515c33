package proc

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/internal/certs"
)

// EtcdCalls measure what a process asks of etcd, each try apart: how etcd looks from here, which is what counts for
// this process.
type EtcdCalls struct{ *prometheus.HistogramVec }

// NewEtcdCalls makes the metric.
func NewEtcdCalls() EtcdCalls {
	return EtcdCalls{prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "modelgate_etcd_request_duration_seconds",
		Help:    "Time that etcd took to answer, by gRPC's code: OK, Unavailable, DeadlineExceeded and others.",
		Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10}}, []string{"code"})}
}

// Option has a client of etcd measure its calls. What it only follows is not measured: it lasts.
func (c EtcdCalls) Option() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, in, out any, conn *grpc.ClientConn,
		call grpc.UnaryInvoker, o ...grpc.CallOption) error {
		began := time.Now()
		err := call(ctx, method, in, out, conn, o...)
		c.WithLabelValues(status.Code(err).String()).Observe(time.Since(began).Seconds())
		return err
	})
}

// FileExpiry tells when the certificates in files expire, by what they are for; an empty path is none.
func FileExpiry(paths map[string]string) prometheus.Collector {
	return certs.NewExpiry("file", certs.Files(paths))
}
