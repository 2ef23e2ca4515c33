package certs

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NewExpiry returns a collector for the expiry of certificates. At every scrape, current returns their PEM by name.
// For a chain it reports the certificate that expires first. Unreadable certificates have no sample. Source is a
// label for their origin; each collector of a registry has its own.
func NewExpiry(source string, current func() map[string][]byte) prometheus.Collector {
	return expiry{current, prometheus.NewDesc("modelgate_certificate_expiry_timestamp_seconds",
		"When a certificate expires, in Unix time: of an object of the configuration, or of a file of this process.",
		[]string{"certificate"}, prometheus.Labels{"source": source})}
}

type expiry struct {
	current func() map[string][]byte
	desc    *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (e expiry) Describe(to chan<- *prometheus.Desc) { to <- e.desc }

// Collect implements prometheus.Collector.
func (e expiry) Collect(to chan<- prometheus.Metric) {
	for name, text := range e.current() {
		if at := Expires(text); !at.IsZero() {
			to <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, float64(at.Unix()), name)
		}
	}
}

// Files returns what reads the files of certificates for [NewExpiry], by name. An empty path is none.
func Files(paths map[string]string) func() map[string][]byte {
	return func() map[string][]byte {
		read := make(map[string][]byte, len(paths))
		for name, path := range paths {
			if path == "" {
				continue
			}
			if text, err := os.ReadFile(path); err == nil { // its user reports a missing one
				read[name] = text
			}
		}
		return read
	}
}

// Expires returns when the first certificate of a PEM text expires; the zero time if there is none.
func Expires(text []byte) (first time.Time) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err == nil && (first.IsZero() || c.NotAfter.Before(first)) {
			first = c.NotAfter
		}
	}
	return first
}
