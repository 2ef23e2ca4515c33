// Package auth creates, parses and hashes the keys of clients, and finds them in requests.
//
// A key is "sk-mg-", 26 characters with 130 random bits, and 6 characters with the low 30 bits of the CRC-32 (IEEE) of
// all characters before, in lower-case Crockford base32 (no i, l, o, u).
//
// The checksum is not a defence. It lets the gateway refuse a mistyped key without a look-up, and scanners recognise a
// leaked key. Only the look-up of its hash shows that a key is valid.
package auth

import (
	"crypto/rand"
	"hash/crc32"

	"github.com/modelgate/modelgate/internal/secret"
)

const (
	prefix       = "sk-mg-"
	randomChars  = 26
	checkChars   = 6
	keyLength    = len(prefix) + randomChars + checkChars
	hintLength   = 4
	alphabet     = "0123456789abcdefghjkmnpqrstvwxyz"
	bitsPerChar  = 5
	alphabetMask = 1<<bitsPerChar - 1
)

// Generate returns a new key.
func Generate() secret.Value {
	var random [randomChars]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	key := make([]byte, 0, keyLength)
	key = append(key, prefix...)
	for _, b := range random {
		key = append(key, alphabet[b&alphabetMask])
	}
	return secret.New(string(appendCheck(key, checksum(string(key)))))
}

func appendCheck(dst []byte, sum uint32) []byte {
	for i := range checkChars {
		dst = append(dst, alphabet[sum>>((checkChars-1-i)*bitsPerChar)&alphabetMask])
	}
	return dst
}

// CheckFormat reports whether s has the form of a key and a right checksum. It does not allocate.
func CheckFormat(s string) bool {
	if len(s) != keyLength || s[:len(prefix)] != prefix {
		return false
	}
	for i := len(prefix); i < keyLength; i++ {
		if !inAlphabet(s[i]) {
			return false
		}
	}
	const body = keyLength - checkChars
	var check [checkChars]byte
	appendCheck(check[:0], checksum(s[:body]))
	return string(check[:]) == s[body:]
}

// checksum is crc32.ChecksumIEEE of a string. That function would take a copy of the key on the heap.
func checksum(s string) uint32 {
	sum := ^uint32(0)
	for i := range len(s) {
		sum = crc32.IEEETable[byte(sum)^s[i]] ^ sum>>8
	}
	return ^sum
}

func inAlphabet(c byte) bool {
	switch {
	case c >= '0' && c <= '9':
		return true
	case c >= 'a' && c <= 'z':
		return c != 'i' && c != 'l' && c != 'o' && c != 'u'
	}
	return false
}

// shortestHinted is the length of the shortest value that is taken for a key with a part that may be shown.
const shortestHinted = 20

// HintOf returns the hint of the key in an Authorization header, or "" if there is none that is long enough.
func HintOf(authorization string) string {
	key, ok := FromHeader(authorization)
	if !ok || len(key) < shortestHinted {
		return ""
	}
	return key[len(key)-hintLength:]
}

// Hint returns the last four characters of a key, by which people recognise it.
func Hint(key secret.Value) string {
	s := key.Reveal()
	return s[max(0, len(s)-hintLength):]
}
