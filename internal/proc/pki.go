package proc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
)

// A Followed value is made of files, and made again when they have changed. While they cannot be used, as when one of
// them is being replaced, it is the last good one. It is safe for concurrent use.
type Followed[T any] struct {
	paths []string
	read  func() (T, error)
	log   *zap.Logger

	mu    sync.Mutex // guards what follows
	value T
	files []os.FileInfo // that value was made of
}

// follow reads the files for the first time. What is wrong with them now is an error.
func follow[T any](log *zap.Logger, read func() (T, error), paths ...string) (*Followed[T], error) {
	f := &Followed[T]{paths: paths, read: read, log: log, files: infos(paths)}
	var err error
	f.value, err = read()
	return f, err
}

// Now returns what the files hold, or held when they were last whole.
func (f *Followed[T]) Now() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	files := infos(f.paths) // before they are read: what changes meanwhile is seen the next time
	if slices.EqualFunc(files, f.files, unchanged) {
		return f.value
	}
	value, err := f.read()
	if err != nil {
		f.log.Warn("TLS files are unusable; the previous ones stay in use", zap.Strings("files", f.paths),
			zap.Error(err))
		return f.value
	}
	f.value, f.files = value, files
	return value
}

func infos(paths []string) []os.FileInfo {
	all := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		all[i], _ = os.Stat(path) // nil is a file that is missing
	}
	return all
}

func unchanged(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// FollowCertificate reads a certificate again when its files change.
func FollowCertificate(log *zap.Logger, certificate, key string) (*Followed[*tls.Certificate], error) {
	return follow(log, func() (*tls.Certificate, error) { return readCertificate(certificate, key) }, certificate, key)
}

// FollowAuthorities reads authorities again when their file changes.
func FollowAuthorities(log *zap.Logger, path string) (*Followed[*x509.CertPool], error) {
	return follow(log, func() (*x509.CertPool, error) { return ReadAuthorities(path) }, path)
}

// ReadAuthorities reads the authorities of a PEM file.
func ReadAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("reading certificate authorities: %s contains no certificate", path)
	}
	return pool, nil
}

func readCertificate(certificate, key string) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	return &c, nil
}

// A MutualTLS is one end of connections on which both ends show a certificate. All of its files are read again when
// they are renewed.
type MutualTLS struct {
	certificate *Followed[*tls.Certificate]
	authorities *Followed[*x509.CertPool] // of the other end
	log         *zap.Logger
}

// ReadMutualTLS reads the files of one end.
func ReadMutualTLS(log *zap.Logger, certificate, key, ca string) (m *MutualTLS, err error) {
	m = &MutualTLS{log: log}
	if m.certificate, err = FollowCertificate(log, certificate, key); err != nil {
		return nil, err
	}
	m.authorities, err = FollowAuthorities(log, ca)
	return m, err
}

// Client returns the configuration of connections to a server of that name.
func (m *MutualTLS) Client(name string) *tls.Config {
	c := Trusting(m.authorities, name)
	c.MinVersion, c.ServerName = tls.VersionTLS13, name
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.Own(), nil }
	return c
}

// Server returns the configuration of a server. A client's certificate must have one of the names; without any, each
// is let in that the authorities know.
func (m *MutualTLS) Server(names ...string) *tls.Config {
	known := verified(m.authorities, x509.ExtKeyUsageClientAuth, names)
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.Own(), nil },
		ClientAuth:     tls.RequireAnyClientCert, // verified by what follows
		VerifyConnection: func(c tls.ConnectionState) error {
			err := known(c)
			if err != nil {
				m.log.Warn("a client was refused because of its certificate", zap.Strings("names", leafNames(c)), zap.Error(err))
			}
			return err
		},
	}
}

// Own is the certificate of this process.
func (m *MutualTLS) Own() *tls.Certificate {
	c := m.certificate.Now()
	if time.Now().After(c.Leaf.NotAfter) {
		m.log.Error("this process's certificate has expired; other processes will refuse it",
			zap.String("file", m.certificate.paths[0]), zap.Time("expired", c.Leaf.NotAfter))
	}
	return c
}

// WatchCertificates has the log say when one of the certificates has expired; nil is none.
func WatchCertificates(p *parts.Parts, all ...*MutualTLS) {
	p.Serve("watch of certificates", func(ctx context.Context) error {
		ticker := time.NewTicker(time.Minute)
		defer ticker.Stop()
		for {
			for _, files := range all {
				if files != nil {
					files.Own()
				}
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// Trusting returns the configuration of connections to servers whose certificates have one of the names.
func Trusting(authorities *Followed[*x509.CertPool], names ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Not without verification: the library's own is by authorities that stay as they were when the process started.
		InsecureSkipVerify: true,
		VerifyConnection:   verified(authorities, x509.ExtKeyUsageServerAuth, names),
	}
}

// verified returns a check of the other end's certificate: by the authorities as they are then, and by name where
// there are any.
func verified(authorities *Followed[*x509.CertPool], usage x509.ExtKeyUsage,
	names []string) func(tls.ConnectionState) error {
	return func(c tls.ConnectionState) error {
		if len(c.PeerCertificates) == 0 {
			return errors.New("the peer sent no certificate")
		}
		leaf := c.PeerCertificates[0]
		between := x509.NewCertPool()
		for _, i := range c.PeerCertificates[1:] {
			between.AddCert(i)
		}
		_, err := leaf.Verify(x509.VerifyOptions{
			Roots: authorities.Now(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if leaf.VerifyHostname(name) == nil {
				return nil
			}
		}
		return fmt.Errorf("the certificate is for %s, not for %s", strings.Join(leafNames(c), ", "),
			strings.Join(names, ", "))
	}
}

// leafNames are the names in the other end's certificate, for the log.
func leafNames(c tls.ConnectionState) []string {
	if len(c.PeerCertificates) == 0 {
		return nil
	}
	leaf := c.PeerCertificates[0]
	return append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
}
