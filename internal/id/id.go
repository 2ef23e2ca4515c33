// Package id creates identifiers: a prefix for the kind of object, and a ULID, such as key_01JD3T9Q8H6R5W4Z2Y0X9V8N7M.
//
// Identifiers sort by the millisecond of their creation and no finer, and they are not secret. Use crypto/rand for
// values that must not be guessed.
package id

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// New returns a new identifier. Two are never the same, on one machine or many: each has 80 random bits.
func New(prefix string) string {
	return prefix + "_" + ulid.MustNew(ulid.Now(), rand.Reader).String()
}

// Bare returns a new identifier without a prefix.
func Bare() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// Derived returns an identifier without a prefix for a name and a time. It is always the same for both.
func Derived(at time.Time, name string) string {
	var u ulid.ULID
	hash := sha256.Sum256([]byte(name))
	copy(u[6:], hash[:])
	_ = u.SetTime(ulid.Timestamp(at)) // fails after the year 10889
	return u.String()
}

// Made returns when an identifier without a prefix was made, or the zero time if bare is none.
func Made(bare string) time.Time {
	u, err := ulid.ParseStrict(bare)
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time())
}

// Descending returns a string that sorts the other way round than the identifier, which has no prefix, so that a range
// of sorted keys begins with the newest. It is false if bare is no identifier.
func Descending(bare string) (key string, ok bool) {
	u, err := ulid.ParseStrict(bare)
	if err != nil || u.String() != bare {
		return "", false
	}
	for i := range u {
		u[i] = ^u[i]
	}
	return hex.EncodeToString(u[:]), true
}

// Valid reports whether s is an identifier with the prefix.
func Valid(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok {
		return false
	}
	_, err := ulid.ParseStrict(rest)
	return err == nil
}
