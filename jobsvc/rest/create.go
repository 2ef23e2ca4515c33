package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// maxIdempotencyKey bounds the length of a client's idempotency key.
const maxIdempotencyKey = 255

// Idempotency identifies a repeated request: by its Idempotency-Key, and by a fingerprint of its method, path and
// parts. It returns nil if the client sent no key.
func Idempotency(r *http.Request, c Caller, parts ...string) (*store.Idempotency, error) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		return nil, nil
	}
	if len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, openai.CodeInvalidIdempotencyKey.New(
			"The Idempotency-Key must have at most %d characters, and none but visible ASCII.", maxIdempotencyKey)
	}
	hash := sha256.New()
	for _, part := range append([]string{r.Method, r.URL.Path}, parts...) {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part) // it never fails
	}
	return &store.Idempotency{Tenant: c.Tenant, By: c.Key, Key: key, Fingerprint: hex.EncodeToString(hash.Sum(nil))}, nil
}

// Create answers a request that creates an object. If the same request was answered before, it sends that answer.
// Otherwise it commits the transaction that fill has filled, and sends fill's answer. It reports whether the answer
// was an earlier one or an error. In these cases the caller must remove everything that fill has made outside of the
// transaction. The created object must stay within the caller's bounds; a store.QuotaError is about them.
func Create(w http.ResponseWriter, r *http.Request, c Caller, s *store.Store, i *store.Idempotency, now time.Time,
	fill func(*store.Txn) (any, error)) (made bool, err error) {
	if done, err := replay(w, r, s, i); done || err != nil {
		return false, err
	}
	t := s.BeginCreation()
	t.Within(c.Bounds)
	answer, err := fill(t)
	if err != nil {
		return false, err
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return false, err
	}
	t.Remember(i, body, now)
	if err := t.Commit(r.Context()); err != nil {
		if !errors.Is(err, store.ErrConflict) {
			return false, err
		}
		if done, other := replay(w, r, s, i); done || other != nil {
			return false, other
		}
		return false, err
	}
	WriteBody(w, body)
	return true, nil
}

// replay sends the answer to the same earlier request, if there was one.
func replay(w http.ResponseWriter, r *http.Request, s *store.Store, i *store.Idempotency) (bool, error) {
	body, err := s.Recall(r.Context(), i)
	if errors.Is(err, store.ErrOtherRequest) {
		return false, openai.CodeIdempotencyKeyReused.New("This Idempotency-Key was used for another request. Repeat that request unchanged, or choose a new key.").Final()
	}
	if err != nil || body == nil {
		return false, err
	}
	w.Header().Set("Idempotency-Replayed", "true")
	WriteBody(w, body)
	return true, nil
}

// WriteBody answers with JSON that is there already.
func WriteBody(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client has left
}
