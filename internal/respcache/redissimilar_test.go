package respcache_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/respcache"
)

// A replica is a process with a cache that compares, and answers in Redis.
type replica struct {
	*respcache.Cache
	remote *respcache.Redis
}

func newReplica(t *testing.T, url string, failed func(), config *configv1.ResponseCache) replica {
	t.Helper()
	client, err := limit.OpenRedis(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	remote := respcache.NewRedis(client, respcache.RedisOptions{Prefix: "mg", Timeout: 5 * time.Second, Log: zap.NewNop(),
		Failed: failed})
	caches, err := respcache.Compile([]*configv1.ResponseCache{config}, []byte("pepper"), nil, remote, nil, zap.NewNop())
	require.NoError(t, err)
	return replica{caches[0], remote}
}

// keep has a request answered, and returns when all of it is in Redis.
func (r replica) keep(t *testing.T, q *respcache.Question, at time.Time) {
	t.Helper()
	keep(t, r.Cache, q, at)
	require.NoError(t, r.remote.Close(context.Background()))
}

func TestReplicasShareAnswersToSimilarRequests(t *testing.T) {
	server, e := redistest.Start(t), newEmbeddings(t)
	failed := 0
	a := newReplica(t, server.URL, func() { failed++ }, e.config())
	b := newReplica(t, server.URL, func() { failed++ }, e.config())
	other := newReplica(t, server.URL, func() { failed++ },
		e.config(func(c *configv1.ResponseCache) { c.Version = "2" }))
	now := time.Now()
	a.keep(t, question(chat(question1)), now)

	near := question(chat(strings.ToUpper(question1) + " THANKS"))
	got := similar(t, b.Cache, near, now)
	require.NotNil(t, got)
	require.Contains(t, string(got.Body), question1)
	require.InDelta(t, 0.95, got.Similarity, 0.04)
	require.Nil(t, similar(t, b.Cache, near, now.Add(2*time.Hour)), "it has expired")
	young, how := b.Similar(t.Context(), b.Comparison(near), now.Add(time.Minute), time.Second)
	require.Nil(t, young, "it is too old for the client")
	require.Equal(t, respcache.ComparedDone, how)
	require.Nil(t, similar(t, other.Cache, near, now), "another version of the cache")
	evil := question(chat(question1 + " thanks"))
	evil.Organization = "evil"
	require.Nil(t, similar(t, b.Cache, evil, now))
	require.Zero(t, b.Bytes())

	client, err := limit.OpenRedis(server.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	list := lists(t, client)
	require.Len(t, list, 1)
	require.InDelta(t, time.Hour, client.TTL(t.Context(), list[0]).Val(), float64(time.Minute))
	sealed := client.LIndex(t.Context(), list[0], 0).Val()

	// Who writes Redis can add nothing: neither what it likes, nor the vector of another bucket.
	a.keep(t, question(chat("the password 4 of my account please")), now)
	for _, name := range lists(t, client) {
		require.NoError(t, client.LPush(t.Context(), name, sealed, "", "x", sealed[:30], sealed[:40]+"x"+sealed[41:]).Err())
	}
	require.Nil(t, similar(t, b.Cache, question(chat("the password 4 of the house, where is it")), now))
	require.NotNil(t, similar(t, b.Cache, near, now))

	// Without its answer, a vector is of no use.
	for _, name := range client.Keys(t.Context(), "*").Val() {
		if client.Type(t.Context(), name).Val() == "string" {
			require.NoError(t, client.Del(t.Context(), name).Err())
		}
	}
	require.Nil(t, similar(t, b.Cache, near, now))
	require.Zero(t, failed)
}

// lists returns the names of all lists, which are those of likenesses.
func lists(t *testing.T, client redis.UniversalClient) (names []string) {
	t.Helper()
	for _, name := range client.Keys(t.Context(), "*").Val() {
		if client.Type(t.Context(), name).Val() == "list" {
			names = append(names, name)
		}
	}
	return names
}

func TestVectorsInRedisAreBounded(t *testing.T) {
	server, e := redistest.Start(t), newEmbeddings(t)
	e.set(func(w http.ResponseWriter, _ *http.Request, text string) {
		writeVector(w, []float32{1, float32(len(text))})
	})
	a := newReplica(t, server.URL, func() {}, e.config())
	now := time.Now()
	for i := range 150 {
		a.keep(t, question(chat(question1+strings.Repeat("x", i))), now)
	}
	client, err := limit.OpenRedis(server.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	list := lists(t, client)
	require.Len(t, list, 1)
	require.EqualValues(t, 128, client.LLen(t.Context(), list[0]).Val())
	require.NotNil(t, similar(t, a.Cache, question(chat(question1+strings.Repeat("y", 149))), now))
}

func TestWhileRedisIsAwayNothingIsSimilar(t *testing.T) {
	e := newEmbeddings(t)
	failed := make(chan struct{}, 100)
	a := newReplica(t, "redis://127.0.0.1:1", func() { failed <- struct{}{} }, e.config())
	for i := range 3 {
		a.keep(t, question(chat(fmt.Sprint(question1, " ", i))), time.Now())
		<-failed
	}
	require.Nil(t, similar(t, a.Cache, question(chat(question1)), time.Now()))
}
