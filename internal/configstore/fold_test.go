package configstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func putEvent(name string, revision int64) clientv3.WatchResponse {
	return clientv3.WatchResponse{Events: []*clientv3.Event{{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{
		Key: []byte(prefix + "providers/" + name), Value: []byte(`{"name":"` + name + `"}`), ModRevision: revision,
	}}}}
}

func TestFoldDeliversAtTheLatestAfterTheDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, func(configv1.Object) error { return nil }, zap.NewNop())
		events := make(chan clientv3.WatchResponse)
		start := time.Now()
		type delivery struct {
			after    time.Duration
			revision int64
		}
		var got []delivery
		var err error
		go func() {
			err = s.fold(t.Context(), newView(), events, func(s State) {
				got = append(got, delivery{time.Since(start), s.Revision})
			})
		}()
		// Changes every 3 ms for 60 ms: a debounce that starts anew with each would deliver none of them before the end.
		for i := range 20 {
			events <- putEvent("a", int64(i+2))
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []delivery{{20 * time.Millisecond, 8}, {41 * time.Millisecond, 15}, {62 * time.Millisecond, 21}},
			got)
		close(events)
		synctest.Wait()
		require.ErrorIs(t, err, errWatchEnded)
		require.Len(t, got, 3, "nothing was left to deliver")
	})
}

func TestFoldDeliversWhatItHasBeforeItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, func(configv1.Object) error { return nil }, zap.NewNop())
		events := make(chan clientv3.WatchResponse, 2)
		events <- putEvent("a", 2)
		events <- clientv3.WatchResponse{CompactRevision: 7, Canceled: true}
		var got []int64
		err := s.fold(t.Context(), newView(), events, func(s State) { got = append(got, s.Revision) })
		require.Error(t, err)
		require.Equal(t, []int64{2}, got)
	})
}

func TestFoldEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := New(nil, nil, zap.NewNop()).fold(ctx, newView(), nil, nil)
	require.True(t, errors.Is(err, context.Canceled))
}

func TestKeysAreUnambiguous(t *testing.T) {
	kinds := kindsByPath()
	for _, k := range configv1.Kinds() {
		for _, name := range []string{"a", "a/b", "a%2Fb", "ft:x::1", "ä", "a b", "."} {
			kind, got, ok := kinds.split(keyOf(k, name))
			require.True(t, ok, name)
			require.Equal(t, name, got)
			require.Equal(t, k.Name, kind.Name)
		}
	}
	for _, key := range []string{prefix, prefix + "version", prefix + "providers", prefix + "nothing/a", prefix +
		"models/a/b", prefix + "models/%zz", prefix + "models/%2f"} {
		_, _, ok := kinds.split(key)
		require.False(t, ok, key)
	}
}
