package snapshot

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// A site is an Envoy between a job service and a provider, both of which say what they were sent.
type site struct {
	*realEnvoy
	*decider
	in       xds.Input
	edge     *http.Client
	internal string
	jobs     *httptest.Server
}

// echo answers with the request's line, headers and the size of its body, after as long as a header says.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	if d, err := time.ParseDuration(r.Header.Get("X-Wait")); err == nil {
		<-time.After(d)
	}
	_, _ = fmt.Fprintf(w, "%s %s %d\n", r.Method, r.RequestURI, n)
	_ = r.Header.Write(w)
})

func startSite(t *testing.T) *site {
	t.Helper()
	upstream := httptest.NewServer(echo)
	t.Cleanup(upstream.Close)
	dir, err := os.MkdirTemp("", "jobs")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	s := &site{internal: filepath.Join(dir, "internal.sock")}
	address := filepath.Join(dir, "jobs.sock")
	s.jobs = httptest.NewUnstartedServer(echo)
	s.jobs.Listener.Close()
	s.jobs.Listener, err = net.Listen("unix", address)
	require.NoError(t, err)
	s.jobs.Start()
	t.Cleanup(s.jobs.Close)
	s.in = xds.Input{
		Providers: []*configv1.ResolvedProvider{{Name: "plain", Provider: &configv1.Provider{Name: "plain", Vendor: "openai",
			Endpoint: upstream.URL}}},
		Gateways: []*configv1.Gateway{{Name: "default", Address: "127.0.0.1"}},
		JobServices: []*configv1.JobService{{Name: "default", Address: "unix://" + address,
			Listen: "unix://" + s.internal}},
	}
	s.start(t, 6)
	return s
}

// start starts Envoy and waits until that many clusters of the configuration are there.
func (s *site) start(t *testing.T, clusters int64) {
	t.Helper()
	s.realEnvoy = startEnvoy(t, &s.in)
	s.decider = s.decide(t, s.in)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	at, err := s.process.AwaitListener(ctx, "gateway/default")
	require.NoError(t, err)
	s.edge = s.client(at)
	s.edge.Timeout = time.Minute
	s.awaitActive(t, clusters)
	require.Zero(t, s.nacks(t))
}

// inside returns a client of the internal listener.
func (s *site) inside() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.internal)
	}}}
}

// zeros is a body of n bytes that nobody holds, and watch is called as it is read.
func zeros(n int64, watch func()) io.Reader {
	return io.TeeReader(io.LimitReader(endless{}, n), watcher(watch))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type watcher func()

func (w watcher) Write(p []byte) (int, error) { w(); return len(p), nil }

func send(t *testing.T, client *http.Client, method, url string, body io.Reader, header ...string) (int, string,
	http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text), answer.Header
}

func (s *site) allocated(t *testing.T) int64 {
	stats, err := s.process.Admin().Stats(t.Context(), `^server\.memory_allocated$`)
	require.NoError(t, err)
	return stats["server.memory_allocated"]
}

func TestEnvoyLetsUploadsPastAndNothingElse(t *testing.T) {
	t.Parallel()
	const size = 100 << 20
	s := startSite(t)
	for name, c := range map[string]struct {
		client  *http.Client
		url, to string
		want    string
		role    string
	}{
		"to the job service": {s.edge, "https://gateway.test/v1/files?x=y", "", "POST /v1/files?x=y 104857600\n",
			envoy.ClusterExtProc},
		"from it to the provider": {s.inside(), "http://internal/files//x%2Fy/../z?a=b", "plain",
			"POST /files//x%2Fy/../z?a=b 104857600\n", envoy.RoleInternal},
	} {
		t.Run(name, func(t *testing.T) {
			s.seen()
			before, most, reads := s.allocated(t), int64(0), 0
			body := zeros(size, func() {
				if reads++; reads%500 == 0 {
					most = max(most, s.allocated(t))
				}
			})
			status, text, header := send(t, c.client, http.MethodPost, c.url, body, envoy.HeaderProvider, c.to)
			require.Equal(t, 200, status, "%s", text)
			require.True(t, strings.HasPrefix(text, c.want), "%s", text)
			require.NotZero(t, most)
			require.Less(t, most-before, int64(16<<20), "Envoy holds the body")
			require.Equal(t, map[string]bool{c.role: true}, s.seen())
			if c.to == "" {
				require.NotEmpty(t, header.Get("X-Request-Id"))
				require.Contains(t, text, "X-Request-Id: "+header.Get("X-Request-Id"))
			}
		})
	}
	t.Run("chat keeps its limit", func(t *testing.T) {
		for _, path := range []string{"/v1/chat/completions", "/v1/filesystem", "/v1/batches"} {
			status, text, _ := send(t, s.edge, http.MethodPost, "https://gateway.test"+path,
				bytes.NewReader(make([]byte, 33<<20)))
			require.Equal(t, 413, status, "%s: %s", path, text)
			require.Contains(t, text, "request_too_large")
		}
		status, text, _ := send(t, s.edge, http.MethodPost, "https://gateway.test/v1/chat/completions",
			bytes.NewReader(make([]byte, 31<<20)))
		require.Equal(t, 200, status, "%s", text)
		status, text, _ = send(t, s.inside(), http.MethodPost, "http://internal/v1/chat/completions",
			bytes.NewReader(make([]byte, 31<<20)))
		require.Equal(t, 200, status, "%s", text)
		status, _, _ = send(t, s.inside(), http.MethodPost, "http://internal/v1/chat/completions",
			bytes.NewReader(make([]byte, 49<<20)))
		require.Equal(t, 413, status, "what is buffered is bounded inside too")
	})
	t.Run("only its owner reaches the internal listener", func(t *testing.T) {
		info, err := os.Stat(s.internal)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	})
}

func TestTheJobServiceHearsWhoAsksFromTheGatewayAlone(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	status, text, _ := send(t, s.edge, http.MethodGet, "https://gateway.test/v1/batches/b", nil, "Authorization",
		"Bearer x",
		envoy.HeaderKey, "key_one", envoy.HeaderKey, "key_two", envoy.HeaderOrganization, "a", envoy.HeaderOrganization, "b",
		"Idempotency-Key", "i", "Range", "bytes=0-1", "X-Request-Id", "mine")
	require.Equal(t, 200, status, "%s", text)
	for _, want := range []string{"X-Modelgate-Key: key_ours\r\n", "Idempotency-Key: i\r\n", "Range: bytes=0-1\r\n",
		"X-Request-Id: mine\r\n"} {
		require.Contains(t, text, want)
	}
	for _, unwanted := range []string{"key_one", "key_two", "Organization", "Authorization"} {
		require.NotContains(t, text, unwanted)
	}
}

func TestAJobServiceThatIsAwayIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.jobs.Close()
	status, text, header := send(t, s.edge, http.MethodGet, "https://gateway.test/v1/files", nil)
	require.Equal(t, 503, status)
	require.Contains(t, text, "jobs_unavailable")
	require.Contains(t, text, "The job service")
	require.Equal(t, "1", header.Get("Retry-After"))
	require.NotEmpty(t, header.Get("X-Request-Id"))

	s.in.JobServices = nil
	s.publish(t, 2, s.in)
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", s.internal)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 10*time.Second, 20*time.Millisecond)
	// Its cluster lingers for as long as a provider's would. One that was never there is told apart.
	fresh := &site{in: s.in}
	fresh.start(t, 5)
	status, text, header = send(t, fresh.edge, http.MethodGet, "https://gateway.test/v1/files", nil)
	require.Equal(t, 503, status)
	require.Contains(t, text, "jobs_not_configured")
	require.Equal(t, "false", header.Get("X-Should-Retry"))
}

func TestTheInternalListenerIsThereAgainAfterACrash(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	crashed := s.process.Pid()
	require.NoError(t, syscall.Kill(crashed, syscall.SIGKILL)) // its socket is left behind
	require.Eventually(t, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://internal/models", nil)
		require.NoError(t, err)
		r.Header.Set(envoy.HeaderProvider, "plain")
		answer, err := s.inside().Do(r)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK && s.process.Pid() != crashed
	}, 30*time.Second, 20*time.Millisecond)
}

// slowly gives a byte each time that a tenth of a second has passed, n times.
type slowly struct{ n int }

func (s *slowly) Read(p []byte) (int, error) {
	if s.n--; s.n < 0 {
		return 0, io.EOF
	}
	<-time.After(100 * time.Millisecond)
	p[0] = ' '
	return 1, nil
}

func TestABodyThatIsBufferedMustArriveInTimeAndAnUploadMayTakeLonger(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	rs := built(t, s.in)
	for _, r := range rs {
		if routes, ok := r.Message.(*routev3.RouteConfiguration); ok {
			for _, route := range routes.GetVirtualHosts()[0].GetRoutes() {
				if route.GetName() == envoy.RouteEntry { // the rest stays as it is
					require.Equal(t, 120*time.Second, route.GetRoute().GetMaxStreamDuration().GetMaxStreamDuration().AsDuration())
					route.GetRoute().MaxStreamDuration.MaxStreamDuration = durationpb.New(time.Second / 2)
				}
			}
		}
	}
	s.Publish(Update{Revision: 2, Objects: objectsOf(rs)})
	require.Eventually(t, func() bool {
		status, text, _ := send(t, s.edge, http.MethodPost, "https://gateway.test/v1/chat/completions", &slowly{12})
		return status == 408 && strings.Contains(text, "request_timeout")
	}, 30*time.Second, time.Millisecond)
	status, text, _ := send(t, s.edge, http.MethodPost, "https://gateway.test/v1/files", &slowly{12})
	require.Equal(t, 200, status, "%s", text)
	status, text, _ = send(t, s.inside(), http.MethodPost, "http://internal/files", &slowly{12}, envoy.HeaderProvider,
		"plain")
	require.Equal(t, 200, status, "%s", text)

	status, text, _ = send(t, s.edge, http.MethodPost, "https://gateway.test/v1/chat/completions",
		strings.NewReader("{}"), "X-Wait", "1s")
	require.Equal(t, 200, status, "what has arrived may be answered later: %s", text)
}

// An authority issues certificates for both ends of a connection.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, a.key.Public(), a.key)
	require.NoError(t, err)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) issue(t *testing.T, name string) (chain, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.certificate, private.Public(), a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func (a *authority) pair(t *testing.T, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, name))
	require.NoError(t, err)
	return pair
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	return pool
}

func TestAcrossMachinesBothEndsShowCertificates(t *testing.T) {
	t.Parallel()
	ours, stranger := newAuthority(t), newAuthority(t)
	s := &site{jobs: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].DNSNames[0])
	}))}
	s.jobs.TLS = &tls.Config{Certificates: []tls.Certificate{ours.pair(t, "jobs.internal")}, ClientCAs: ours.pool(),
		ClientAuth: tls.RequireAndVerifyClientCert}
	s.jobs.StartTLS()
	t.Cleanup(s.jobs.Close)
	listen := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(freePort(t)))
	s.in = xds.Input{
		Providers: []*configv1.ResolvedProvider{{Name: "plain", Provider: &configv1.Provider{Name: "plain", Vendor: "openai",
			Endpoint: "http://127.0.0.1:1"}}},
		Gateways: []*configv1.Gateway{{Name: "default", Address: "127.0.0.1"}},
		JobServices: []*configv1.JobService{{Name: "default", Address: s.jobs.Listener.Addr().String(),
			Listen: listen.String(),
			Tls:    &configv1.MutualTLS{Certificate: "envoy", Ca: string(ours.pem), ServerName: "jobs.internal"}}},
	}
	chain, key := ours.issue(t, "envoy.internal")
	s.in.Certificates = append(s.in.Certificates, certificateOf("envoy", chain, key))
	s.start(t, 6)
	status, text, _ := send(t, s.edge, http.MethodGet, "https://gateway.test/v1/files", nil)
	require.Equal(t, 200, status, "%s", text)
	require.Equal(t, "envoy.internal", text)

	ask := func(certificates ...tls.Certificate) (int, error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			RootCAs: ours.pool(), ServerName: "envoy.internal", Certificates: certificates, MinVersion: tls.VersionTLS12,
		}}}
		answer, err := client.Get("https://" + listen.String() + "/files")
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		return answer.StatusCode, nil
	}
	status, err := ask(ours.pair(t, "jobs.internal"))
	require.NoError(t, err)
	require.Equal(t, 503, status, "no provider was named, but it is let in")
	for name, certificates := range map[string][]tls.Certificate{
		"none":               nil,
		"a stranger's":       {stranger.pair(t, "jobs.internal")},
		"of another service": {ours.pair(t, "other.internal")},
		"Envoy's own":        {ours.pair(t, "envoy.internal")},
	} {
		_, err := ask(certificates...)
		require.Error(t, err, name)
	}
}
