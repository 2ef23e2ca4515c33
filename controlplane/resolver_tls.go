package controlplane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// certificate returns a certificate with its chain and its key. While its files are being replaced, what is read of
// them may not belong together; the files have changed again by the time that it does.
func (r *resolver) certificate(c *configv1.Certificate) (*configv1.Certificate, error) {
	resolved, err := revealed(r, c)
	if err == nil {
		err = r.pem("chain_file", c.GetChainFile(), &resolved.Chain)
	}
	if err != nil {
		return nil, err
	}
	if _, err := tls.X509KeyPair([]byte(resolved.GetChain()), []byte(resolved.GetPrivateKey().GetValue())); err != nil {
		return nil, fmt.Errorf("chain and private_key: %w", err)
	}
	return resolved, nil
}

func (r *resolver) jobService(s *configv1.JobService) (*configv1.JobService, error) {
	if s.GetTls().GetCaFile() == "" {
		return s, nil
	}
	if err := r.mayName(s); err != nil {
		return nil, err
	}
	resolved := proto.CloneOf(s)
	if err := r.pem("tls.ca_file", s.GetTls().GetCaFile(), &resolved.Tls.Ca); err != nil {
		return nil, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(resolved.GetTls().GetCa())) {
		return nil, errors.New("tls.ca_file: holds no certificate in PEM")
	}
	return resolved, nil
}

// pem reads the file of a field, if it names one.
func (r *resolver) pem(field, path string, into *string) error {
	if path == "" {
		return nil
	}
	v, err := r.file(path)
	if err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	*into = v.Reveal()
	return nil
}
