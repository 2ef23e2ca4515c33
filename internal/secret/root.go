package secret

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

const keySize = 32

// A Root is the secret that the control plane derives its others. Whoever has it and a copy of etcd can read every
// sealed credential; without it they are lost.
type Root struct{ bytes [keySize]byte }

// LoadRoot reads the root from the file, which holds 64 hexadecimal digits, and creates it at the first use. See
// [File].
func LoadRoot(path string) (*Root, error) {
	v, err := File(path, newRoot)
	if err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(v.Reveal())
	if err != nil || len(b) != keySize {
		return nil, fmt.Errorf("secret file %s does not contain %d hexadecimal digits: restore it from a copy", path,
			2*keySize)
	}
	return &Root{bytes: [keySize]byte(b)}, nil
}

func newRoot() Value {
	var b [keySize]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return New(hex.EncodeToString(b[:]))
}

// KeyPepper returns the secret under which clients' keys are hashed: 32 bytes, the caller's own.
func (r *Root) KeyPepper() []byte { return r.derive("modelgate key pepper v1") }

// Sealer returns the sealer of credentials.
func (r *Root) Sealer() *Sealer { return newSealer(r.derive("modelgate credential sealing v1")) }

// BodySealer returns the sealer of kept bodies.
func (r *Root) BodySealer() *Sealer { return newSealer(r.derive("modelgate body sealing v1")) }

// ResponseKey returns the key of [NewSealer] for stored responses.
func (r *Root) ResponseKey() []byte { return r.derive("modelgate response sealing v1") }

// Fingerprint tells one root from another and nothing else about it.
func (r *Root) Fingerprint() string {
	return hex.EncodeToString(r.derive("modelgate root fingerprint v1"))
}

// String returns [Redacted].
func (*Root) String() string { return Redacted }

// GoString returns [Redacted], for %#v.
func (*Root) GoString() string { return Redacted }

func (r *Root) derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, r.bytes[:], nil, purpose, keySize)
	if err != nil {
		panic("secret: " + err.Error()) // only for keys longer than 255 hashes
	}
	return key
}
