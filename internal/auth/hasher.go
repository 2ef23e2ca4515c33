package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// A Hash is the stored form of a key, and finds the key again. It can be a map's key.
type Hash [sha256.Size]byte

// A Hasher computes hashes of keys: HMAC-SHA-256 under the pepper. It is safe for concurrent use and allocates nothing
// once it is warm.
type Hasher struct{ states sync.Pool }

type hashState struct {
	mac hash.Hash
	in  []byte // what would escape to the heap at every call
	out Hash
}

// NewHasher returns a hasher that keeps a copy of pepper.
func NewHasher(pepper []byte) *Hasher {
	own := append([]byte(nil), pepper...)
	h := &Hasher{}
	h.states.New = func() any {
		return &hashState{mac: hmac.New(sha256.New, own), in: make([]byte, 0, keyLength)}
	}
	return h
}

// Hash returns the hash of a key, which may be any string.
func (h *Hasher) Hash(key string) Hash {
	s := h.states.Get().(*hashState)
	s.in = append(s.in[:0], key...)
	s.mac.Reset()
	s.mac.Write(s.in)
	s.mac.Sum(s.out[:0])
	out := s.out
	clear(s.in) // a key does not stay in memory longer than its request
	h.states.Put(s)
	return out
}
