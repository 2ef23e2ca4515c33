package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

var errUnheard = status.Error(codes.Unavailable, "etcdserver: request timed out")

// A fault says of a transaction whether etcd is asked, and whether its answer arrives.
type fault func(*pb.TxnRequest) (asked, heard bool)

// faulty returns a client whose transactions a test can disturb.
func (b *bench) faulty(f fault, more ...grpc.DialOption) *clientv3.Client {
	b.t.Helper()
	disturb := func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
		o ...grpc.CallOption) error {
		txn, ok := request.(*pb.TxnRequest)
		if !ok {
			return invoke(ctx, method, request, reply, c, o...)
		}
		asked, heard := f(txn)
		if !asked {
			return errUnheard
		}
		err := invoke(ctx, method, request, reply, c, o...)
		if !heard {
			return errUnheard
		}
		return err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{b.server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: append(more, grpc.WithChainUnaryInterceptor(disturb)),
	})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	return client
}

func claims(t *pb.TxnRequest, id string) bool {
	put := t.GetSuccess()[0].GetRequestPut()
	return strings.HasPrefix(string(put.GetKey()), store.Root+"claims/") && strings.HasSuffix(string(put.GetKey()), "/"+
		id)
}

func releases(t *pb.TxnRequest) bool {
	return strings.HasPrefix(string(t.GetSuccess()[0].GetRequestDeleteRange().GetKey()), store.Root+"claims/")
}

func TestAClaimThatCouldNotBeReleasedIsNotLeftBehind(t *testing.T) {
	for name, asked := range map[string]bool{"etcd was not reached": false, "its answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ttl = 60 * time.Second // longer than this test waits
			var once atomic.Bool
			client := b.faulty(func(r *pb.TxnRequest) (bool, bool) {
				if releases(r) && once.CompareAndSwap(false, true) {
					return asked, false
				}
				return true, true
			})
			b.put(queue.Item{ID: "a"})
			var tries atomic.Int64
			b.start(client, 1, func(ctx context.Context, c *queue.Claim) error {
				if tries.Add(1) == 1 {
					return errors.New("it is tried again")
				}
				return b.done(ctx, c)
			})
			b.eventually(func() bool { return len(b.keys("queue")) == 0 })
			all := b.claimed()
			require.Len(t, all, 2)
			require.Greater(t, all[1].Epoch, all[0].Epoch, "a worker tells by it what is its own")
		})
	}
}

func TestAClaimWhoseAnswerIsLostDisturbsNoOther(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]bool{"etcd was not reached": false, "it was made": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ttl = 20 * time.Second
			var lost atomic.Int64
			client := b.faulty(func(r *pb.TxnRequest) (bool, bool) {
				if claims(r, "b") && lost.Add(1) <= 2 {
					return asked, false
				}
				return true, true
			})
			b.put(queue.Item{ID: "a"})
			finish := make(chan struct{})
			began := make(chan struct{})
			interrupted := make(chan error, 1)
			b.start(client, 4, func(ctx context.Context, c *queue.Claim) error {
				if c.ID == "a" {
					close(began)
					select {
					case <-finish:
					case <-ctx.Done():
						interrupted <- ctx.Err()
						return ctx.Err()
					}
				}
				return b.done(ctx, c)
			})
			<-began
			b.put(queue.Item{ID: "b"})
			b.eventually(func() bool { return len(b.keys("queue")) == 1 })
			close(finish)
			b.eventually(func() bool { return len(b.keys("queue")) == 0 })
			require.Empty(t, interrupted)
			require.Len(t, b.claimed(), 2)
			b.eventually(func() bool { return len(b.keys("claims")) == 0 })
		})
	}
}

// A link is the way to etcd, which can be cut.
type link struct {
	mu    sync.Mutex // guards what follows
	cut   bool
	conns []net.Conn
}

func (l *link) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the link is cut")
	}
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(address, "http://"))
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func TestWorkGoesOnWhereEtcdHasForgottenWhatTheWatchMissed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var l link
	client := b.faulty(func(*pb.TxnRequest) (bool, bool) { return true, true }, grpc.WithContextDialer(l.dial))
	b.put(queue.Item{ID: "long"})
	began, finish := make(chan struct{}), make(chan struct{})
	interrupted := make(chan error, 1)
	q := queue.New(queue.Options{Etcd: client, Node: "node", TTL: 20 * time.Second, Log: zap.NewNop()})
	var handled atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Work(ctx, kind, 8, func(ctx context.Context, c *queue.Claim) error {
			if c.ID == "long" {
				close(began)
				select {
				case <-finish:
				case <-ctx.Done():
					interrupted <- ctx.Err()
					return ctx.Err()
				}
			} else {
				handled.Add(1)
			}
			return b.done(ctx, c)
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-began
	l.set(true)
	for i := range 5 {
		b.put(queue.Item{ID: fmt.Sprint("missed-", i)})
	}
	r, err := b.etcd.Put(t.Context(), "now", "")
	require.NoError(t, err)
	_, err = b.etcd.Compact(t.Context(), r.Header.Revision)
	require.NoError(t, err)
	l.set(false)
	b.eventually(func() bool { return handled.Load() == 5 })
	require.Empty(t, interrupted, "its claim was held all the time")
	close(finish)
	b.eventually(func() bool { return len(b.keys("queue")) == 0 && len(b.keys("claims")) == 0 })
}
