// Package respcache keeps answers for equal requests. What makes requests equal is in [Question]: whatever a provider
// could get to see, and whose request it is.
//
// A cache is never asked whether a client may use a model, and what content is allowed: that is decided before.
package respcache

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/request"
)

// MaxAnswer is the largest answer that is kept, in bytes.
const MaxAnswer = 1 << 20

// Caches are the caches of a configuration, the most specific first. They are safe for concurrent use.
type Caches []*Cache

// A Cache is a ResponseCache of the configuration.
type Cache struct {
	config *configv1.ResponseCache
	secret []byte
	remote *Redis // nil: the answers are in memory

	embedder atomic.Pointer[embedder] // nil: only equal requests get an answer
	index    *index

	held atomic.Int64 // bytes of answers that are not complete yet

	mu      sync.Mutex // guards the fields below
	memory  *memory
	flights map[Key]*Flight
}

// Compile makes caches ready for use. An unchanged cache keeps its answers. A change of the guardrails empties all:
// what an answer may contain is no longer the same. The pepper is secret. If remote is nil, answers are kept in
// memory.
func Compile(configs []*configv1.ResponseCache, pepper []byte, rails []*configv1.Guardrail, remote *Redis,
	before Caches, log *zap.Logger) (Caches, error) {
	if len(configs) == 0 {
		return nil, nil
	}
	mac := hmac.New(sha256.New, pepper)
	write(mac, []byte("response cache"))
	for _, g := range rails {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(g)
		if err != nil {
			return nil, err
		}
		write(mac, text)
	}
	secret := mac.Sum(nil)
	all := make(Caches, 0, len(configs))
	for _, c := range configs {
		bare := proto.CloneOf(c)
		bare.Credential = nil
		i := slices.IndexFunc(before, func(b *Cache) bool {
			return proto.Equal(b.config, bare) && bytes.Equal(b.secret, secret) && b.remote == remote
		})
		var cache *Cache
		if i >= 0 {
			cache = before[i]
		} else {
			cache = &Cache{config: bare, secret: secret, remote: remote, memory: newMemory(c.Bytes()),
				index: newIndex(c.Bytes()), flights: map[Key]*Flight{}}
		}
		if err := cache.connect(c, log); err != nil {
			return nil, err
		}
		all = append(all, cache)
	}
	slices.SortStableFunc(all, func(a, b *Cache) int {
		return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(a.Name(), b.Name()))
	})
	return all, nil
}

// connect has the cache ask the embeddings service of its configuration. Another credential does not empty it.
func (c *Cache) connect(config *configv1.ResponseCache, log *zap.Logger) error {
	if e := c.embedder.Load(); e != nil && e.credential == config.GetCredential().GetValue() {
		return nil
	}
	e, err := newEmbedder(config, log)
	if e != nil {
		c.embedder.Store(e)
	}
	return err
}

// rank is higher for caches of fewer requests.
func (c *Cache) rank() int {
	switch {
	case c.config.GetKey() != "":
		return 3
	case c.config.GetProject() != "":
		return 2
	case c.config.GetOrganization() != "":
		return 1
	}
	return 0
}

// For returns the cache for a client's request to a model: the most specific one; nil if there is none.
func (all Caches) For(s *request.Subject, model string) *Cache {
	for _, cache := range all {
		if configv1.Covers(cache.config, s.Client()) && configv1.CoversModel(cache.config, model) {
			return cache
		}
	}
	return nil
}

// Name returns the cache's name.
func (c *Cache) Name() string { return c.config.GetName() }

// Pace returns how many chunks of a kept stream are sent a second; 0: all at once.
func (c *Cache) Pace() int { return int(c.config.GetPace()) }

// Bytes returns how many bytes of answers, and of vectors of their requests, are in memory.
func (c *Cache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.bytes + c.index.size()
}

// IsRemote reports whether other processes may have an answer: who leads a flight is to Fetch it first.
func (c *Cache) IsRemote() bool { return c.remote != nil }

// A Key stands for equal requests of one tenant. It is secret: answers in Redis are sealed with it.
type Key [sha256.Size]byte

// A Question is what makes a request equal to another.
type Question struct {
	request.Subject
	Operation string // with the dialect
	Path      string
	Betas     string
	Stream    bool
	Model     string // by its name in the configuration
	Served    []byte // identifies who serves the model, and how
	Guards    string // rules of guardrails that apply
	Sent      *openai.Members
}

// Key returns the key of a question.
func (c *Cache) Key(q *Question) Key { return c.sum(hmac.New(sha256.New, c.secret), q, q.Sent) }

// sum adds a question to a hash, with other members, and returns the sum.
func (c *Cache) sum(mac hash.Hash, q *Question, sent *openai.Members) (k Key) {
	write(mac, []byte(c.config.GetName()))
	write(mac, []byte(c.config.GetVersion()))
	write(mac, []byte(c.tenant(&q.Subject)))
	write(mac, []byte(q.Operation))
	write(mac, []byte(q.Path))
	write(mac, []byte(q.Betas))
	write(mac, []byte{b2i(q.Stream)})
	write(mac, []byte(q.Model))
	write(mac, q.Served)
	write(mac, []byte(q.Guards))
	canonical(sent, mac)
	mac.Sum(k[:0])
	return k
}

// tenant returns who shares answers.
func (c *Cache) tenant(of *request.Subject) string {
	switch {
	case c.config.GetKey() != "" || of.Organization == "":
		return "key/" + of.Key
	case c.config.GetProject() != "":
		return "project/" + of.Organization + "/" + of.Project
	}
	return "organization/" + of.Organization
}

// write adds a field to a hash, so that no two lists of fields are the same.
func write(h hash.Hash, field []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(field)))
	_, _ = h.Write(n[:]) // a hash never fails
	_, _ = h.Write(field)
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// An Answer is a complete answer, as the client got it. It is immutable.
type Answer struct {
	At          time.Time // of its end
	Model       string    // upstream
	Provider    string
	ContentType string
	Dropped     string // values of headers
	Adjusted    string
	Cost        int64 // what it has cost, in nano-dollars
	Body        []byte

	Similarity float64 `json:"-"` // of the request that it was to; 0: that was equal
}

// size is about what an answer takes in memory.
func (a *Answer) size() int { return len(a.Body) + 512 }

// A Flight is a request that is asked for its equals, too. They wait for its answer.
type Flight struct {
	cache *Cache
	key   Key
	done  chan struct{}

	// The fields below are set before done is closed.
	answer *Answer // nil: there is none to share
	again  bool    // one of the waiting requests should ask in its place

	lease *lease // nil: other processes do not wait for the answer. The cache's lock guards it
}

// Ask returns the answer for a key, if it is in memory and not older than maxAge. Otherwise it returns the flight of
// the equal request that is under way, or a new one, which the caller then leads: it must call End.
func (c *Cache) Ask(k Key, now time.Time, maxAge time.Duration) (a *Answer, f *Flight, leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a = c.memory.find(k); a != nil && c.isFresh(a, now, maxAge) {
		return a, nil, false
	}
	if f = c.flights[k]; f != nil {
		return nil, f, false
	}
	f = &Flight{cache: c, key: k, done: make(chan struct{})}
	c.flights[k] = f
	return nil, f, true
}

func (c *Cache) isFresh(a *Answer, now time.Time, maxAge time.Duration) bool {
	return now.Sub(a.At) <= min(maxAge, c.config.KeptFor())
}

// Keep keeps an answer. One that is kept in Redis is in memory until it is there, so that it is always in one of
// them. Other processes that wait for the answer to an equal request get it.
func (c *Cache) Keep(k Key, a *Answer) {
	c.mu.Lock()
	c.memory.keep(k, a)
	var l *lease
	if f := c.flights[k]; f != nil {
		l, f.lease = f.lease, nil
	}
	c.mu.Unlock()
	if c.remote != nil {
		c.remote.put(k, a, c.config.KeptFor(), l, func() { c.forget(k, a) })
	}
}

// forget drops an answer from memory, unless there is another by now.
func (c *Cache) forget(k Key, a *Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memory.find(k) == a {
		c.memory.answers.Remove(k)
	}
}

// Fetch returns the answer from Redis, if there is one, for who leads the flight. If another process sends an equal
// request, Fetch waits for its end, or that of ctx, and reports that the answer is shared. Without an answer the
// caller sends the request. Other processes wait for it, unless Redis is unavailable.
func (f *Flight) Fetch(ctx context.Context, now time.Time, maxAge time.Duration) (a *Answer, shared bool) {
	r := f.cache.remote
	if r == nil {
		return nil, false
	}
	for useless := ""; ; {
		l := r.newLease(f.key)
		sealed, holder, err := r.ask(ctx, f.key, l, useless)
		switch {
		case err == nil && holder == "":
			if a = r.open(f.key, sealed); a != nil && f.cache.isFresh(a, now, maxAge) {
				return a, shared
			}
			useless = sealed[:min(len(sealed), aboutAnswer)]
			continue
		case errors.Is(err, errRests):
			return nil, false
		case err != nil, holder == l.token: // after a failure, nobody knows whether the lease is taken
			f.hold(l)
			return nil, false
		case holder == notKept:
			f.End(nil, false)
			return nil, false
		}
		if !r.follow(ctx, l.name, holder) {
			return nil, false
		}
		shared = true
	}
}

// hold keeps a lease until the end of the flight.
func (f *Flight) hold(l *lease) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	if f.cache.flights[f.key] != f {
		l.end(true)
		return
	}
	l.begin()
	f.lease = l
}

// End ends the flight, with the answer for those that wait. Without one, either one of them should ask again, because
// nobody knows the answer, or all should, because it is not for others. Only the first call counts.
func (f *Flight) End(a *Answer, again bool) {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	if f.cache.flights[f.key] != f {
		return
	}
	delete(f.cache.flights, f.key)
	f.answer, f.again = a, again
	close(f.done)
	if f.lease != nil {
		f.lease.end(a != nil || again)
		f.lease = nil
	}
}

// Wait waits for the end of the flight, or of ctx. It returns the answer, or whether the caller should call Ask again.
func (f *Flight) Wait(ctx context.Context) (a *Answer, again bool) {
	select {
	case <-f.done:
		return f.answer, f.again
	case <-ctx.Done():
		return nil, false
	}
}

// Hold reports whether there is room for n more bytes of an answer that is not complete yet. They are given back by a
// negative n.
func (c *Cache) Hold(n int) bool {
	if held := c.held.Add(int64(n)); n > 0 && held > int64(c.config.Bytes()) {
		c.held.Add(-int64(n))
		return false
	}
	return true
}
