package controlplane

import "os"

// SystemCA returns the path of this machine's certificate authorities as one PEM file, or "" if there is none that
// is known. It helps if Envoy runs on the same machine.
func SystemCA() string {
	for _, path := range []string{
		"/etc/ssl/certs/ca-certificates.crt", // Debian, Alpine
		"/etc/pki/tls/certs/ca-bundle.crt",   // Fedora, RHEL
		"/etc/ssl/ca-bundle.pem",             // openSUSE
		"/etc/ssl/cert.pem",                  // macOS, FreeBSD
	} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
