package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// sealVersion begins every sealed value, so that another scheme can follow this one.
const sealVersion = 1

// ErrUnsealable is returned by [Sealer.Open]. It does not say more, for there is no more to say: the value was
// changed, belongs to another field, or was sealed under another root.
var ErrUnsealable = errors.New(
	"the sealed value cannot be opened: it was changed or moved, or the root secret is another one")

// A Sealer encrypts credentials for storage, with AES-256-GCM and a random nonce. It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) *Sealer {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("secret: " + err.Error()) // only for keys of another size
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("secret: " + err.Error()) // only for blocks of another size
	}
	return &Sealer{aead: aead}
}

// NewSealer returns a sealer with a key of 32 bytes, as [Root.ResponseKey] returns it.
func NewSealer(key []byte) (*Sealer, error) {
	if len(key) != keySize {
		return nil, errors.New("the key of a sealer has another length")
	}
	return newSealer(key), nil
}

// SealBytes is [Sealer.Seal] for bytes, which are not encoded as text. It does not modify plain.
func (s *Sealer) SealBytes(kind, name, field string, plain []byte) []byte {
	return s.aead.Seal([]byte{sealVersion}, nil, plain, place(kind, name, field))
}

// OpenBytes decrypts what SealBytes returned. Its only error is [ErrUnsealable].
func (s *Sealer) OpenBytes(kind, name, field string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != sealVersion {
		return nil, ErrUnsealable
	}
	opened, err := s.aead.Open(nil, nil, sealed[1:], place(kind, name, field))
	if err != nil {
		return nil, ErrUnsealable
	}
	return opened, nil
}

// Seal encrypts v for one field of one object, as base64. Two calls give two results. Only [Sealer.Open] for the same
// kind, name and field opens it, so a sealed value that is copied to another object is worth nothing there.
func (s *Sealer) Seal(kind, name, field string, v Value) string {
	return base64.StdEncoding.EncodeToString(s.SealBytes(kind, name, field, []byte(v.Reveal())))
}

// Open decrypts what Seal returned. Its only error is [ErrUnsealable].
func (s *Sealer) Open(kind, name, field, sealed string) (Value, error) {
	b, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return Value{}, ErrUnsealable
	}
	opened, err := s.OpenBytes(kind, name, field, b)
	if err != nil {
		return Value{}, err
	}
	return New(string(opened)), nil
}

// place is the associated data: each part with its length before it, so that no two places look the same.
func place(parts ...string) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	return b
}
