// Package certs creates the certificates of a gateway that runs on one machine: an authority that clients are
// configured to trust, and the listener's certificate.
//
// The authority is created once and must not change, because clients have a copy of it. Only the listener's
// certificate is issued again.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/modelgate/modelgate/internal/atomicfile"
)

// Names of the files in the data folder.
const (
	FileCA        = "ca.crt"     // the authority, for clients
	FileCAKey     = "ca.key"     // the authority's private key, 0600
	FileServer    = "server.crt" // the listener's certificate
	FileServerKey = "server.key" // the listener's private key, 0600

	authorityName  = "Modelgate development authority"
	authorityYears = 10
	leafLife       = 365 * 24 * time.Hour
	renewBefore    = 30 * 24 * time.Hour
	// clockSkew is how far a client's clock may be behind.
	clockSkew = time.Hour
)

// Pair is a certificate and its private key, both as PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Ensure returns the certificate of a listener that is reached as localhost, at the loopback addresses and at hosts,
// which are names or IP addresses. It makes the authority and the certificate in dir if they are missing, and
// issues the certificate again if it has less than 30 days left or does not cover hosts. An authority that is there
// but cannot be used is an error.
func Ensure(dir string, hosts []string, now time.Time) (Pair, error) {
	authority, err := ensureAuthority(dir, now)
	if err != nil {
		return Pair{}, err
	}
	hosts = append([]string{"localhost", "127.0.0.1", "::1"}, hosts...)
	pair, err := readPair(dir, FileServer, FileServerKey)
	if err == nil && serves(pair, authority.certificate, hosts, now) {
		return pair, nil
	}
	return issue(dir, authority, hosts, now)
}

// IsDevelopment reports whether a development authority issued the certificate, this one or an earlier one. What it
// reports is a hint and proves nothing.
func IsDevelopment(certificate []byte) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err == nil && c.Issuer.CommonName == authorityName
}

// keyed is a certificate with the key that signs for it.
type keyed struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func ensureAuthority(dir string, now time.Time) (keyed, error) {
	// The key is written first, so a certificate without a key is not a creation that was interrupted.
	if _, err := os.Stat(filepath.Join(dir, FileCA)); errors.Is(err, fs.ErrNotExist) {
		return createAuthority(dir, now)
	}
	pair, err := readPair(dir, FileCA, FileCAKey)
	var authority keyed
	if err == nil {
		authority, err = parsePair(pair)
	}
	if err != nil {
		return keyed{},
			fmt.Errorf("the development authority %s and its key %s cannot be used: %w: restore both from a copy. Or move both away: a new authority is then created, which clients must trust",
				filepath.Join(dir, FileCA), filepath.Join(dir, FileCAKey), err)
	}
	if now.Add(renewBefore).After(authority.certificate.NotAfter) {
		return createAuthority(dir, now)
	}
	return authority, nil
}

func createAuthority(dir string, now time.Time) (keyed, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: authorityName},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := sign(template, nil)
	if err != nil {
		return keyed{}, fmt.Errorf("making the development authority: %w", err)
	}
	if err := writePair(dir, FileCA, FileCAKey, pair); err != nil {
		return keyed{}, err
	}
	return parsePair(pair)
}

func issue(dir string, authority keyed, hosts []string, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "Modelgate"},
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(leafLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	pair, err := sign(template, &authority)
	if err != nil {
		return Pair{}, fmt.Errorf("issuing the listener's certificate: %w", err)
	}
	return pair, writePair(dir, FileServer, FileServerKey, pair)
}

// sign makes a key and a certificate for it, signed by the issuer or, if that is nil, by itself.
func sign(template *x509.Certificate, issuer *keyed) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	if issuer == nil {
		issuer = &keyed{template, key}
	}
	// x509 chooses a random serial number if the template has none.
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.certificate, key.Public(), issuer.key)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// serves reports whether the pair is one that the authority issued, for all hosts, with enough time left.
func serves(pair Pair, authority *x509.Certificate, hosts []string, now time.Time) bool {
	leaf, err := parsePair(pair)
	if err != nil || leaf.certificate.CheckSignatureFrom(authority) != nil {
		return false
	}
	for _, host := range hosts {
		if leaf.certificate.VerifyHostname(host) != nil {
			return false
		}
	}
	return now.After(leaf.certificate.NotBefore) && now.Add(renewBefore).Before(leaf.certificate.NotAfter)
}

func readPair(dir, certificate, key string) (pair Pair, err error) {
	if pair.Certificate, err = os.ReadFile(filepath.Join(dir, certificate)); err != nil {
		return Pair{}, err
	}
	pair.Key, err = os.ReadFile(filepath.Join(dir, key))
	return pair, err
}

func writePair(dir, certificate, key string, pair Pair) error {
	if err := atomicfile.Write(filepath.Join(dir, key), pair.Key, 0o600); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, certificate), pair.Certificate, 0o644)
}
