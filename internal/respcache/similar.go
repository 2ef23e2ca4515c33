package respcache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// A Comparison is the compared part of a request: its last text. All its other parts are equal in the requests that
// it is compared with, and so are the numbers in the text.
type Comparison struct {
	bucket Key // of those requests
	text   string
	vector vector // once it is known
}

// Compares reports whether a request, whose answer is a model's text, is compared with others.
func (c *Cache) Compares(sent *openai.Members) bool {
	if c.embedder.Load() == nil {
		return false
	}
	_, _, ok := lastText(sent.Body)
	return ok
}

// Comparison returns what a request is compared by; nil if only an equal one has its answer. The answer to the
// request is a model's text.
func (c *Cache) Comparison(q *Question) *Comparison {
	if c.embedder.Load() == nil {
		return nil
	}
	text, rest, ok := lastText(q.Sent.Body)
	if !ok {
		return nil
	}
	derive := hmac.New(sha256.New, c.secret)
	write(derive, []byte("similar"))
	mac := hmac.New(sha256.New, derive.Sum(nil))
	s := c.config.GetSimilar()
	write(mac, []byte(s.GetUrl()))
	write(mac, []byte(s.GetModel()))
	write(mac, binary.BigEndian.AppendUint32(nil, s.GetDimensions()))
	write(mac, numbers(text))
	compared := &Comparison{text: text}
	compared.bucket = c.sum(mac, q, openai.MembersOf(rest))
	return compared
}

// Similar returns the answer to the most similar of the requests that this one is compared with; nil if none is
// similar enough, or if the service that compares does not answer in time.
func (c *Cache) Similar(ctx context.Context, to *Comparison, now time.Time, maxAge time.Duration) (*Answer, Compared) {
	v, how := c.embedder.Load().vector(ctx, to.text)
	to.text, to.vector = "", v
	if how != ComparedDone {
		return nil, how
	}
	least := c.config.GetSimilar().LeastSimilarity()
	if c.remote != nil {
		all := c.remote.likenesses(ctx, to.bucket, now, min(maxAge, c.config.KeptFor()))
		return c.fetchFirst(ctx, nearest(all, v, least), now, maxAge), how
	}
	return c.findFirst(to.bucket, nearest(c.index.find(to.bucket), v, least), now, maxAge), how
}

// findFirst returns the first answer of neighbours that is fresh. The likeness of an answer that is no more is
// forgotten.
func (c *Cache) findFirst(bucket Key, found []neighbour, now time.Time, maxAge time.Duration) *Answer {
	for _, n := range found {
		c.mu.Lock()
		a := c.memory.find(n.key)
		c.mu.Unlock()
		switch {
		case a == nil || !c.isFresh(a, now, c.config.KeptFor()):
			c.index.forget(bucket, n.key)
		case c.isFresh(a, now, maxAge):
			return a.similar(n.cosine)
		}
	}
	return nil
}

// fetchFirst is findFirst in Redis, which is asked for a few.
func (c *Cache) fetchFirst(ctx context.Context, found []neighbour, now time.Time, maxAge time.Duration) *Answer {
	for _, n := range found[:min(maxFetched, len(found))] {
		if a := c.remote.find(ctx, n.key); a != nil && c.isFresh(a, now, maxAge) {
			return a.similar(n.cosine)
		}
	}
	return nil
}

// similar returns the answer for another request, to whose own it is so similar.
func (a *Answer) similar(cosine float64) *Answer {
	other := *a
	other.Similarity = min(cosine, 1)
	return &other
}

// Learn has the answer that is kept for a key since a time found by similar requests, if the request's vector is
// known.
func (c *Cache) Learn(from *Comparison, k Key, at time.Time) {
	if from == nil || len(from.vector.steps) == 0 {
		return
	}
	l := likeness{from.vector, k}
	if c.remote != nil {
		c.remote.learn(from.bucket, l, at, c.config.KeptFor())
		return
	}
	c.index.add(from.bucket, l)
}
