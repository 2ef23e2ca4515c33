package auth

import "strings"

const scheme = "bearer"

// FromHeader returns the key of an Authorization header with the scheme Bearer (RFC 6750, section 2.1), which is written
// in any case and may have any amount of space around its parts. It is false for every other value. It does not allocate.
func FromHeader(authorization string) (key string, ok bool) {
	s := strings.Trim(authorization, " \t")
	if len(s) <= len(scheme) || !strings.EqualFold(s[:len(scheme)], scheme) {
		return "", false
	}
	key = strings.TrimLeft(s[len(scheme):], " \t")
	if len(key) == len(s)-len(scheme) {
		return "", false // no space after the scheme
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c >= 0x7f {
			return "", false
		}
	}
	return key, true
}

// IsBearer reports whether an Authorization header has the scheme Bearer and something after it, be that a key or not.
func IsBearer(authorization string) bool {
	s := strings.Trim(authorization, " \t")
	return len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) && strings.IndexByte(" \t", s[len(scheme)]) >= 0
}
