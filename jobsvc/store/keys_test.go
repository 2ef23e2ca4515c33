package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestANewKeyDoesNotCountWhatAllOthersHave(t *testing.T) {
	server := etcdtest.New(t)
	var scans atomic.Int64
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithUnaryInterceptor(
			func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker,
				o ...grpc.CallOption) error {
				if strings.Contains(fmt.Sprint(request), "/"+parcels.Name+"/") {
					if txn, ok := request.(*etcdserverpb.TxnRequest); ok && len(txn.Compare) == 0 {
						scans.Add(1)
					}
				}
				return invoke(ctx, method, request, reply, c, o...)
			})}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it reports the end of its own context
	plain := store.New(server.Client(t))     // as of a version that does not count
	for i := range 3 {
		require.NoError(t, create(t, plain, newParcel(store.Tenant{}, parcel{Key: fmt.Sprint("old ", i%2), Size: 5}), nil))
	}
	s := store.New(client).Counting(parcels)
	for i := range 20 {
		require.NoError(t, create(t, s, newParcel(store.Tenant{}, parcel{Key: fmt.Sprint("new ", i), Size: 7}), nil))
	}
	require.EqualValues(t, 1, scans.Load(), "what keys have is read once, not for each")
	for i := range 2 {
		require.NoError(t, create(t, s, newParcel(store.Tenant{}, parcel{Key: fmt.Sprint("old ", i), Size: 7}), nil))
	}
	require.EqualValues(t, 17, used(t, s, store.Account{Key: "old 0"})[store.RecordBytes], "what there was before counts")
	require.EqualValues(t, 12, used(t, s, store.Account{Key: "old 1"})[store.RecordBytes])
	require.EqualValues(t, 7, used(t, s, store.Account{Key: "new 19"})[store.RecordBytes])
	corrected, err := s.Recount(t.Context())
	require.NoError(t, err)
	require.Empty(t, corrected)
}
