package auth

import "strings"

const scheme = "bearer"

// FromHeader returns the key of an Authorization header with the scheme Bearer (RFC 6750, section 2.1), which is
// written in any case and may have any amount of space around its parts. It is false for every other value. It does
// not allocate.
func FromHeader(authorization string) (key string, ok bool) {
	if key, ok = bearer(authorization); !ok {
		return "", false
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
	_, ok := bearer(authorization)
	return ok
}

// bearer returns what stands after the scheme Bearer and the space behind it.
func bearer(authorization string) (rest string, ok bool) {
	s := strings.Trim(authorization, " \t")
	if len(s) <= len(scheme) || !strings.EqualFold(s[:len(scheme)], scheme) {
		return "", false
	}
	rest = strings.TrimLeft(s[len(scheme):], " \t")
	return rest, len(rest) < len(s)-len(scheme) // without a space it is another scheme
}
