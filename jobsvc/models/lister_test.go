package models_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/jobsvc/config"
	"github.com/modelgate/modelgate/jobsvc/models"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestWhatProvidersListIsKept(t *testing.T) {
	w := newWorld(t)
	w.set("a", nil, "m2", "m1", "m2", "bad\nname", "", strings.Repeat("x", 257))
	w.set("b", nil)
	w.run()
	w.awaitListings(map[string]string{"a": "m1 m2", "b": ""})
	e, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Listing)(nil)), "a")
	require.NoError(t, err)
	require.Equal(t, "them", e.Object.(*configv1.Listing).GetModels()[0].GetOwnedBy())

	w.rounds("a", 3)
	again, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Listing)(nil)), "a")
	require.NoError(t, err)
	require.Equal(t, e.Revision, again.Revision, "what has not changed is not written")

	w.set("a", nil, "m3")
	w.awaitListings(map[string]string{"a": "m3", "b": ""})
	w.configure("a", "c")
	w.set("c", nil, "n")
	w.awaitListings(map[string]string{"a": "m3", "c": "n"})
	w.configure("a", "b", "c")
	w.awaitListings(map[string]string{"a": "m3", "b": "", "c": "n"})
}

func TestAProviderThatFailsKeepsItsListAndIsToldOfOnce(t *testing.T) {
	w := newWorld(t)
	w.set("a", nil, "m")
	stop := w.run()
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.set("a", errors.New("connection refused"))
	w.rounds("a", 5)
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.set("a", nil, "m", "n")
	w.awaitListings(map[string]string{"a": "m n", "b": ""})
	w.rounds("a", 2)
	stop()
	require.Equal(t, 1, w.logs.FilterMessage("a provider did not list its models; its last list stays").Len())
	require.Equal(t, 1, w.logs.FilterMessage("a provider lists its models again").Len())
}

func TestAChangedProviderIsAskedAtOnce(t *testing.T) {
	w := newWorld(t)
	s := models.New(models.Options{
		Store: store.New(w.etcd), Queue: queue.New(queue.Options{Etcd: w.etcd, Node: "n", Log: zap.NewNop()}),
		Gateway: w, Objects: w.objects, Config: w.current, Interval: time.Hour, Check: time.Millisecond, Log: zap.NewNop(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	w.awaitListings(map[string]string{"a": "", "b": ""})
	w.set("a", nil, "m")
	next := &config.Config{Providers: maps.Clone(w.current().Providers)}
	next.Providers["a"] = &config.Provider{Config: &configv1.Provider{Name: "a", Endpoint: "https://elsewhere"},
		Vendor: next.Providers["a"].Vendor}
	w.mu.Lock()
	w.config = next
	w.mu.Unlock()
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(t, map[string]int{"a": 2, "b": 1}, w.asked)
}

func TestAListIsBounded(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for i := range 6000 {
		ids = append(ids, fmt.Sprintf("%04d-%s", i, strings.Repeat("<", 250)))
	}
	w.set("a", nil, ids...)
	w.set("b", nil, ids[:3]...)
	w.run()
	w.rounds("b", 2)
	e, err := w.objects.Get(t.Context(), configv1.KindOf((*configv1.Listing)(nil)), "a")
	require.NoError(t, err)
	n := len(e.Object.(*configv1.Listing).GetModels())
	require.Greater(t, n, 1000)
	text, err := configv1.Marshal(e.Object)
	require.NoError(t, err)
	require.Less(t, len(text), 1<<20)

	for i := range ids {
		ids[i] = ids[i][:10]
	}
	w.set("a", nil, ids...)
	w.awaitListings(map[string]string{"a": strings.Join(ids[:5000], " "),
		"b": strings.Join([]string{"0000-" + strings.Repeat("<", 250), "0001-" + strings.Repeat("<", 250), "0002-" +
			strings.Repeat("<", 250)}, " ")})
}

func TestOneOfTwoReplicasAsks(t *testing.T) {
	w := newWorld(t)
	w.set("a", nil, "m")
	stop := w.run()
	w.awaitListings(map[string]string{"a": "m", "b": ""})
	w.run()
	w.rounds("a", 5)
	claims, err := w.etcd.Get(t.Context(), store.Root+"claims/listing/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, claims.Kvs, 1)
	stop()
	w.set("a", nil, "n")
	w.awaitListings(map[string]string{"a": "n", "b": ""})
}
