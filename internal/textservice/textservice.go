// Package textservice makes HTTP clients for the services that get texts of requests: checkers, and the embeddings of
// response caches.
//
// Do not have a client follow redirects: the texts are for nobody else.
package textservice

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"time"
)

// New returns a client that trusts the authorities of ca (PEM), or without one those of the system. It keeps so many
// idle connections to a service. A call is bounded by its context.
func New(ca string, idle int) (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: idle,
		IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if ca != "" {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("its ca has no certificate")
		}
	}
	keep := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: keep}, nil
}
