package respcache_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/respcache"
)

func compile(t *testing.T, remote *respcache.Redis, configs ...*configv1.ResponseCache) respcache.Caches {
	t.Helper()
	all, err := respcache.Compile(configs, []byte("pepper"), nil, remote, nil, nil)
	require.NoError(t, err)
	return all
}

func question(body string) *respcache.Question {
	return &respcache.Question{Subject: request.Subject{Key: "key_1", Organization: "acme", Project: "web"},
		Operation: "openai chat/completions", Path: "/v1/chat/completions", Model: "m",
		Sent: openai.MembersOf([]byte(body))}
}

// TestWhatMakesRequestsEqual changes one thing at a time.
func TestWhatMakesRequestsEqual(t *testing.T) {
	config := &configv1.ResponseCache{Name: "c", Organization: "acme"}
	c := compile(t, nil, config)[0]
	same := c.Key(question(`{"model":"m","n":1}`))
	ofOther := question(`{"model":"m","n":1}`)
	ofOther.Subject = request.Subject{Key: "key_2", Organization: "acme"}
	for name, q := range map[string]*respcache.Question{
		"white space": question("{ \"model\" :\n\"m\", \"n\": 1 }"),
		"order":       question(`{"n":1,"model":"m"}`),
		"a project":   ofOther,
	} {
		require.Equal(t, same, c.Key(q), name)
	}
	for name, change := range map[string]func(*respcache.Question){
		"organization": func(q *respcache.Question) { q.Organization = "evil" },
		"operation":    func(q *respcache.Question) { q.Operation = "completions" },
		"path":         func(q *respcache.Question) { q.Path += "/" },
		"betas":        func(q *respcache.Question) { q.Betas = "x" },
		"stream":       func(q *respcache.Question) { q.Stream = true },
		"model":        func(q *respcache.Question) { q.Model = "n" },
		"served":       func(q *respcache.Question) { q.Served = []byte{1} },
		"guards":       func(q *respcache.Question) { q.Guards = "pii " },
		"body":         func(q *respcache.Question) { q.Sent = openai.MembersOf([]byte(`{"model":"m","n":10}`)) },
		"type":         func(q *respcache.Question) { q.Sent = openai.MembersOf([]byte(`{"model":"m","n":"1"}`)) },
		"a twice":      func(q *respcache.Question) { q.Sent = openai.MembersOf([]byte(`{"model":"m","n":1,"n":1}`)) },
		"between":      func(q *respcache.Question) { q.Path, q.Betas = q.Path+"a", "" },
	} {
		q := question(`{"model":"m","n":1}`)
		change(q)
		require.NotEqual(t, same, c.Key(q), name)
	}
	for name, other := range map[string]*configv1.ResponseCache{
		"name":    {Name: "d", Organization: "acme"},
		"version": {Name: "c", Organization: "acme", Version: "2"},
		"project": {Name: "c", Organization: "acme", Project: "web"},
		"key":     {Name: "c", Key: "key_1"},
	} {
		require.NotEqual(t, same, compile(t, nil, other)[0].Key(question(`{"model":"m","n":1}`)), name)
	}
	for name, other := range map[string]struct {
		pepper []byte
		rails  []*configv1.Guardrail
	}{
		"the pepper":  {[]byte("salt"), nil},
		"a guardrail": {[]byte("pepper"), []*configv1.Guardrail{{Name: "g"}}},
	} {
		all, err := respcache.Compile([]*configv1.ResponseCache{config}, other.pepper, other.rails, nil, nil, nil)
		require.NoError(t, err)
		require.NotEqual(t, same, all[0].Key(question(`{"model":"m","n":1}`)), name)
	}
}

func TestAMemoryIsBoundedByBytes(t *testing.T) {
	c := compile(t, nil, &configv1.ResponseCache{Name: "c", MaxBytes: 10_000})[0]
	key := func(i int) respcache.Key { return c.Key(question(fmt.Sprintf(`{"n":%d}`, i))) }
	now := time.Now()
	for i := range 100 {
		c.Keep(key(i), &respcache.Answer{At: now, Body: bytes.Repeat([]byte("x"), 500)})
		require.LessOrEqual(t, c.Bytes(), 10_000)
		a, f, _ := c.Ask(key(0), now, time.Hour)
		require.NotNil(t, a, "what is used stays")
		require.Nil(t, f)
	}
	_, f, leads := c.Ask(key(1), now, time.Hour)
	require.True(t, leads)
	f.End(nil, false)
	c.Keep(key(2), &respcache.Answer{At: now, Body: make([]byte, 20_000)})
	require.LessOrEqual(t, c.Bytes(), 10_000, "what is too large alone is not kept")
	c.Keep(key(0), &respcache.Answer{At: now, Body: []byte("new")})
	a, _, _ := c.Ask(key(0), now, time.Hour)
	require.Equal(t, "new", string(a.Body))
}

// store returns a Redis that is closed with the test, with a client of its own.
func store(t *testing.T, server string, o respcache.RedisOptions) (*respcache.Redis, redis.UniversalClient) {
	t.Helper()
	client, err := limit.OpenRedis(server)
	require.NoError(t, err)
	o.Prefix, o.Log = "mg", zap.NewNop()
	if o.Failed == nil {
		o.Failed = func() { t.Error("redis has failed") }
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second // the machine may be busy
	}
	remote := respcache.NewRedis(client, o)
	t.Cleanup(func() {
		_ = remote.Close(context.Background())
		_ = client.Close()
	})
	return remote, client
}

// fetch returns the answer in Redis, or nil.
func fetch(t *testing.T, c *respcache.Cache, k respcache.Key, now time.Time, maxAge time.Duration) *respcache.Answer {
	t.Helper()
	_, f, leads := c.Ask(k, now, maxAge)
	require.True(t, leads)
	a, _ := f.Fetch(t.Context(), now, maxAge)
	f.End(a, true)
	return a
}

func TestReplicasShareAnswersInRedis(t *testing.T) {
	server := redistest.Start(t)
	var replicas []*respcache.Cache
	var remotes []*respcache.Redis
	for range 4 {
		remote, _ := store(t, server.URL, respcache.RedisOptions{})
		remotes = append(remotes, remote)
		replicas = append(replicas, compile(t, remote, &configv1.ResponseCache{Name: "c", Organization: "acme"})[0])
	}
	key := replicas[0].Key(question(`{"n":1}`))
	now := time.Now()
	require.Nil(t, fetch(t, replicas[0], key, now, time.Hour))
	kept := &respcache.Answer{At: now.UTC().Truncate(time.Second), Model: "m", Provider: "p",
		ContentType: "application/json", Cost: 7, Body: []byte("{\"secret\":\n\"words\"}")}
	replicas[0].Keep(key, kept)
	require.NoError(t, remotes[0].Close(t.Context()))
	for i, r := range replicas {
		require.Equal(t, key, r.Key(question(`{ "n": 1 }`)))
		require.Equal(t, kept, fetch(t, r, key, now, time.Hour), i)
		require.Nil(t, fetch(t, r, key, now.Add(time.Minute), time.Second), "too old for the client")
		require.NoError(t, remotes[i].Close(t.Context()))
	}

	_, client := store(t, server.URL, respcache.RedisOptions{})
	names := client.Keys(t.Context(), "*").Val()
	require.Len(t, names, 1)
	sealed := client.Get(t.Context(), names[0]).Val()
	require.NotContains(t, sealed, "words")
	require.NotContains(t, names[0], fmt.Sprintf("%x", key[:8]), "the name does not tell the key")
	require.InDelta(t, time.Hour, client.TTL(t.Context(), names[0]).Val(), float64(time.Minute))
	for name, bad := range map[string]string{"changed": sealed[:20] + "x" + sealed[21:], "short": sealed[:5],
		"empty": ""} {
		require.NoError(t, client.Set(t.Context(), names[0], bad, 0).Err())
		require.Nil(t, fetch(t, replicas[1], key, now, time.Hour), name)
	}
}

func TestWhileRedisIsAwayThereAreNoAnswers(t *testing.T) {
	failed := make(chan struct{}, 10)
	const timeout = 10 * time.Second
	remote, _ := store(t, "redis://127.0.0.1:1",
		respcache.RedisOptions{Failed: func() { failed <- struct{}{} }, Timeout: timeout})
	c := compile(t, remote, &configv1.ResponseCache{Name: "c"})[0]
	key := c.Key(question(`{}`))
	require.Nil(t, fetch(t, c, key, time.Now(), time.Hour))
	<-failed
	began := time.Now()
	for range 5 {
		require.Nil(t, fetch(t, c, key, time.Now(), time.Hour))
		<-failed
	}
	c.Keep(key, &respcache.Answer{})
	<-failed
	require.Less(t, time.Since(began), 3*timeout, "nobody waits for it again and again")
	require.NoError(t, remote.Close(t.Context()))
}

// Between the end of the first request and the end of the write to Redis, equal requests find its answer too.
func TestAnAnswerOnItsWayToRedisIsFound(t *testing.T) {
	server := redistest.Start(t)
	remote, client := store(t, server.URL, respcache.RedisOptions{})
	c := compile(t, remote, &configv1.ResponseCache{Name: "c"})[0]
	key, now := c.Key(question(`{}`)), time.Now()
	_, flight, leads := c.Ask(key, now, time.Hour)
	require.True(t, leads)
	require.NoError(t, client.Do(t.Context(), "CLIENT", "PAUSE", 300, "WRITE").Err())
	kept := &respcache.Answer{At: now.UTC().Truncate(time.Second), Body: []byte("words")}
	c.Keep(key, kept)
	flight.End(kept, false)
	a, _, _ := c.Ask(key, now, time.Hour)
	require.Equal(t, kept, a)
	require.NoError(t, remote.Close(t.Context()))
	require.Zero(t, c.Bytes(), "it is in Redis alone")
	require.Equal(t, kept, fetch(t, c, key, now, time.Hour))
}
