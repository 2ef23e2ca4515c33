package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"code.dny.dev/ssrf"
	"github.com/stretchr/testify/require"
)

// loopback is the network of the receivers in these tests.
var loopback = netip.MustParsePrefix("127.0.0.1/32")

// controls returns what checks the connections with TLS, and those without.
func controls(t *testing.T, networks ...netip.Prefix) (secure, plain func(address string) error) {
	t.Helper()
	withTLS, without, err := Dialers(networks)
	require.NoError(t, err)
	check := func(d *net.Dialer) func(string) error {
		return func(address string) error {
			network := "tcp4"
			if strings.HasPrefix(address, "[") {
				network = "tcp6"
			}
			return d.Control(network, address, nil)
		}
	}
	return check(withTLS), check(without)
}

func TestOnlyPublicAddressesAreReached(t *testing.T) {
	secure, plain := controls(t)
	for name, address := range map[string]string{
		"loopback": "127.0.0.1:443", "another loopback": "127.8.9.1:443", "this host": "0.0.0.0:443",
		"private 10": "10.1.2.3:443", "private 172": "172.16.0.1:443", "private 192": "192.168.1.1:8443",
		"metadata of clouds": "169.254.169.254:80", "carrier-grade NAT": "100.64.0.1:443", "multicast": "224.0.0.1:443",
		"broadcast":  "255.255.255.255:443",
		"loopback 6": "[::1]:443", "unique local": "[fd00::1]:443", "unique local fc": "[fc00::1]:443",
		"link-local 6": "[fe80::1]:443",
		"metadata 6":   "[fd00:ec2::254]:80", "mapped loopback": "[::ffff:127.0.0.1]:443",
		"mapped private":    "[::ffff:10.0.0.1]:443",
		"NAT64 of loopback": "[64:ff9b::7f00:1]:443", "6to4": "[2002:7f00:1::]:443", "unspecified": "[::]:443",
	} {
		require.ErrorIs(t, secure(address), ssrf.ErrProhibitedIP, name)
		require.ErrorIs(t, plain(address), ssrf.ErrProhibitedIP, name)
	}
	for _, address := range []string{"93.184.216.34:443", "[2606:2800:220:1:248:1893:25c8:1946]:8443"} {
		require.NoError(t, secure(address))
		require.ErrorIs(t, plain(address), ssrf.ErrProhibitedIP, "without TLS, only what is allowed by itself")
	}
}

func TestNetworksOfOnesOwnAreReachedWhereTheyAreAllowed(t *testing.T) {
	secure, plain := controls(t, netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("fd12::/16"))
	for _, address := range []string{"10.20.3.4:8080", "[fd12::7]:80"} {
		require.NoError(t, secure(address))
		require.NoError(t, plain(address))
	}
	for _, address := range []string{"10.21.0.1:443", "127.0.0.1:443", "[fd13::1]:443", "[::ffff:10.20.3.4]:443"} {
		require.ErrorIs(t, secure(address), ssrf.ErrProhibitedIP)
		require.ErrorIs(t, plain(address), ssrf.ErrProhibitedIP)
	}
	for _, bad := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:10.0.0.0/104")} {
		_, err := New([]netip.Prefix{bad})
		require.Error(t, err)
	}
}

func TestANameThatLeadsToAPrivateAddressIsBlocked(t *testing.T) {
	c, err := New(nil, func(d *net.Dialer, _ *http.Transport) { d.Resolver = resolving(t, [4]byte{127, 0, 0, 1}) })
	require.NoError(t, err)
	for _, url := range []string{"https://hooks.example.com/x", "https://hooks.example.com:8443/x",
		"http://hooks.example.com/x", "https://127.0.0.1/", "https://[::ffff:7f00:1]/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
		require.NoError(t, err)
		_, err = c.of(r.URL.Scheme).Do(r)
		require.Equal(t, Blocked, Reason(err), url)
	}
}

// resolving returns a resolver whose answer is always the address.
func resolving(t *testing.T, address [4]byte) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for query := make([]byte, 512); ; {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(dnsAnswer(query[:n], address), from)
		}
	}()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// dnsAnswer answers questions of type A with the address, and others with nothing (RFC 1035, section 4.1).
func dnsAnswer(query []byte, address [4]byte) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	answer := append([]byte{}, query[:end]...)
	answer[2], answer[3] = 0x81, 0x80 // a response, recursion available
	clear(answer[6:12])
	if binary.BigEndian.Uint16(query[end-4:]) != 1 {
		return answer
	}
	answer[7] = 1
	answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4) // the name asked for, A, IN, one second
	return append(answer, address[:]...)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	paths := []string{}
	target := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		http.Redirect(w, r, "http://127.0.0.2/private", http.StatusTemporaryRedirect)
	}))
	defer target.Close()
	r := clientOf(t, target).Post(t.Context(), target.URL+"/hook", Message{}, time.Now())
	require.Equal(t, Result{Outcome: Refused, Status: http.StatusTemporaryRedirect}, r)
	require.Equal(t, []string{"/hook"}, paths)
}

func TestOldTLSAndUnknownAuthoritiesAreRefused(t *testing.T) {
	target := httptest.NewUnstartedServer(http.NotFoundHandler())
	target.TLS = &tls.Config{MaxVersion: tls.VersionTLS11,
		MinVersion: tls.VersionTLS10} //nolint:gosec // what is to be refused
	target.StartTLS()
	defer target.Close()
	require.Equal(t, Unreachable, clientOf(t, target).Post(t.Context(), target.URL, Message{}, time.Now()).Outcome)

	unknown := httptest.NewTLSServer(http.NotFoundHandler())
	defer unknown.Close()
	c, err := New([]netip.Prefix{loopback})
	require.NoError(t, err)
	require.Equal(t, Unreachable, c.Post(t.Context(), unknown.URL, Message{}, time.Now()).Outcome)
}

func TestATargetThatDoesNotAnswerIsGivenUpInTime(t *testing.T) {
	release := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer target.Close()
	defer close(release)
	c := clientOf(t, target)
	require.Equal(t, Timeout, c.plain.Timeout)
	c.Patience(50 * time.Millisecond)
	require.Equal(t, TimedOut, c.Post(t.Context(), target.URL, Message{}, time.Now()).Outcome)
}

// clientOf returns a client that reaches a receiver.
func clientOf(t *testing.T, target *httptest.Server) *Client {
	t.Helper()
	c, err := New([]netip.Prefix{loopback}, trusting(target))
	require.NoError(t, err)
	return c
}

// trusting has a client know the certificate of a receiver.
func trusting(target *httptest.Server) func(*net.Dialer, *http.Transport) {
	return func(_ *net.Dialer, t *http.Transport) {
		if target.Certificate() != nil {
			t.TLSClientConfig.RootCAs = x509.NewCertPool()
			t.TLSClientConfig.RootCAs.AddCert(target.Certificate())
		}
	}
}
