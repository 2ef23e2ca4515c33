package certs

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// parsePair reads the first certificate of the pair and its key, and checks that they belong together. Its errors hold
// nothing of the key.
func parsePair(pair Pair) (keyed, error) {
	block, _ := pem.Decode(pair.Certificate)
	if block == nil || block.Type != "CERTIFICATE" {
		return keyed{}, errors.New("it holds no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return keyed{}, fmt.Errorf("reading the certificate: %w", err)
	}
	if block, _ = pem.Decode(pair.Key); block == nil {
		return keyed{}, errors.New("there is no private key")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return keyed{}, errors.New("the private key cannot be read as PKCS #8")
	}
	key, ok := private.(crypto.Signer)
	if !ok {
		return keyed{}, errors.New("the private key cannot sign")
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificate.PublicKey) {
		return keyed{}, errors.New("the private key is not that of the certificate")
	}
	return keyed{certificate, key}, nil
}
