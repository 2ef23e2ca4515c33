// Package id makes identifiers: a prefix that says of what, and a ULID, such as key_01JD3T9Q8H6R5W4Z2Y0X9V8N7M.
//
// What a newcomer gets wrong: identifiers sort by the millisecond in which they were made and no finer, and they are
// not secret. What must not be guessed needs crypto/rand itself.
package id

import (
	"crypto/rand"
	"strings"

	"github.com/oklog/ulid/v2"
)

// New returns a new identifier. Two are never the same, on one machine or many: each has 80 random bits.
func New(prefix string) string {
	return prefix + "_" + ulid.MustNew(ulid.Now(), rand.Reader).String()
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
