// Package password hashes and checks the passwords of people, with argon2id.
//
// Keys are not passwords. Keys are random and are looked up by a fast keyed hash (package auth). Passwords are chosen
// by people and need a slow hash, which also takes memory. So only a few hashes are computed at once, and others wait.
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// MaxBytes is the length of the longest password.
const MaxBytes = 1024

const (
	saltBytes = 16
	hashBytes = 32
	// atOnce bounds the memory that hashing takes in a process, to this many times that of one hash.
	atOnce = 2
	// The largest parameters that a stored hash may have, so that a broken one cannot exhaust the process.
	maxMemory, maxPasses, maxThreads = 256 << 10, 16, 16
)

// parameters are the parameters of a hash.
type parameters struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
}

// current returns the parameters of new hashes: above OWASP's least for argon2id (19 MiB and two passes).
func current() parameters { return parameters{memory: 32 << 10, passes: 3, threads: 1} }

var turns = make(chan struct{}, atOnce)

func (p parameters) derive(password string, salt []byte, length int) []byte {
	turns <- struct{}{}
	defer func() { <-turns }()
	return argon2.IDKey([]byte(password), salt, p.passes, p.memory, p.threads, uint32(length))
}

// ErrTooLong says that a password has more than MaxBytes.
var ErrTooLong = errors.New("the password is too long")

// Hash returns a PHC string of the password under a new salt.
func Hash(password string) (string, error) {
	if len(password) > MaxBytes {
		return "", ErrTooLong
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	p := current()
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.memory, p.passes, p.threads,
		encode(salt), encode(p.derive(password, salt, hashBytes))), nil
}

// Verify reports whether password has the hash. It takes as long if hash is empty or broken.
func Verify(hash, password string) bool {
	p, salt, want, err := parse(hash)
	if err != nil || len(password) > MaxBytes {
		current().derive("", make([]byte, saltBytes), hashBytes)
		return false
	}
	return subtle.ConstantTimeCompare(p.derive(password, salt, len(want)), want) == 1
}

var errBroken = errors.New("not the PHC string of an argon2id hash")

func parse(hash string) (p parameters, salt, sum []byte, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, errBroken
	}
	_, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.threads)
	if err != nil || p.memory < 8 || p.memory > maxMemory || p.passes < 1 || p.passes > maxPasses || p.threads < 1 ||
		p.threads > maxThreads {
		return p, nil, nil, errBroken
	}
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[4])
	sum, sumErr := base64.RawStdEncoding.DecodeString(parts[5])
	if saltErr != nil || sumErr != nil || len(salt) < 8 || len(sum) < hashBytes {
		return p, nil, nil, errBroken
	}
	return p, salt, sum, nil
}
