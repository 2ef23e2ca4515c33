package snapshot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/testenv"
)

// A realEnvoy is an Envoy that a bench configures.
type realEnvoy struct {
	*bench
	process *process.Process
	ca      *x509.CertPool
	extProc string // the socket where Envoy looks for the ext_proc service
}

// startEnvoy gives a configuration a certificate, publishes it, and starts an Envoy that takes it.
func startEnvoy(t *testing.T, in *xds.Input) *realEnvoy {
	t.Helper()
	binary := testenv.Envoy(t)
	// The path of a Unix socket is short.
	dir, err := os.MkdirTemp("", "xds")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	e := &realEnvoy{bench: newBench(t), ca: x509.NewCertPool(), extProc: filepath.Join(dir, "extproc.sock")}
	e.rotate(t, in)
	e.publish(t, 1, *in)
	e.listen(t, filepath.Join(dir, "xds.sock"))

	admin := filepath.Join(dir, "admin.sock")
	text, err := bootstrap.YAML(bootstrap.Options{
		NodeID:      "test",
		AdminSocket: admin,
		ExtProc:     bootstrap.Addresses{{Pipe: e.extProc}},
		XDS:         bootstrap.Address{Pipe: filepath.Join(dir, "xds.sock")},
	})
	require.NoError(t, err)
	config := filepath.Join(dir, "envoy.yaml")
	require.NoError(t, os.WriteFile(config, text, 0o600))
	e.process, err = process.Start(t.Context(), process.Options{
		Binary: binary, Config: config, AdminSocket: admin, Concurrency: 1, Log: zap.NewNop(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { e.process.Stop(context.Background(), 0) })
	return e
}

func (e *realEnvoy) listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := grpc.NewServer(ServerOptions()...)
	e.Register(e.ctx, s)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); served.Wait() })
}

// rotate gives the configuration a new certificate, of an authority of its own.
func (e *realEnvoy) rotate(t *testing.T, in *xds.Input) {
	t.Helper()
	pair, err := certs.Ensure(t.TempDir(), []string{"gateway.test"}, time.Now())
	require.NoError(t, err)
	e.ca.AppendCertsFromPEM(pair.Certificate)
	in.Certificates = slices.DeleteFunc(in.Certificates,
		func(c *configv1.Certificate) bool { return c.GetName() == "default" })
	in.Certificates = append(in.Certificates, certificateOf("default", pair.Certificate, pair.Key))
}

func certificateOf(name string, chain, key []byte) *configv1.Certificate {
	return &configv1.Certificate{
		Name: name, Chain: string(chain),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(key)}},
	}
}

// publish builds a configuration, which must be without faults, and publishes it with more resources.
func (e *realEnvoy) publish(t *testing.T, revision int64, in xds.Input, more ...xds.Resource) {
	t.Helper()
	e.Publish(Update{Revision: revision, Objects: objectsOf(append(built(t, in), more...))})
}

func built(t *testing.T, in xds.Input) []xds.Resource {
	t.Helper()
	rs, errs := xds.Build(in, xds.Options{
		SystemCA: "/etc/ssl/certs/ca-certificates.crt",
		Providers: map[string]provider.Provider{
			"openai": {Name: "openai", CredentialHeaders: []string{"Authorization", "OpenAI-Project"}},
		},
	})
	require.Empty(t, errs)
	return rs
}

// awaitActive waits until Envoy has that many clusters, which include the three of its bootstrap.
func (e *realEnvoy) awaitActive(t *testing.T, clusters int64) {
	t.Helper()
	const active = "cluster_manager.active_clusters"
	require.Eventually(t, func() bool {
		stats, err := e.process.Admin().Stats(t.Context(), "^cluster_manager\\.active_clusters$")
		return err == nil && stats[active] == clusters
	}, 20*time.Second, 20*time.Millisecond)
}

// everyKind is a configuration that has one of everything that is built in more than one way.
func everyKind(t *testing.T) (in xds.Input, plainPort uint32) {
	t.Helper()
	pair, err := certs.Ensure(t.TempDir(), []string{"models.test"}, time.Now())
	require.NoError(t, err)
	plainPort = freePort(t)
	for name, p := range map[string]*configv1.Provider{
		"named":   {Endpoint: "https://localhost:1/v1", Headers: map[string]string{"X-Team": "blue"}},
		"address": {Endpoint: "https://[::1]:1/v1", Tls: &configv1.UpstreamTLS{Ca: string(pair.Certificate)}},
		"private": {Endpoint: "https://127.0.0.1:1", Tls: &configv1.UpstreamTLS{Ca: string(pair.Certificate),
			ServerName: "models.test"}},
		"plain": {Endpoint: "http://localhost:1"},
		"pipe":  {Endpoint: "unix:///nowhere.sock"},
	} {
		p.Name, p.Vendor = name, "openai"
		in.Providers = append(in.Providers, &configv1.ResolvedProvider{Name: name, Provider: p, Credential: "sk-test"})
	}
	in.Gateways = []*configv1.Gateway{{
		Name: "default", Address: "127.0.0.1", PlainHttpPort: plainPort, TrustedHops: 1, MaxRequestBytes: 1000,
	}}
	in.Settings = &configv1.Settings{Name: "default", KeyPepper: []byte("pepper")}
	return in, plainPort
}

func freePort(t *testing.T) uint32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return uint32(l.Addr().(*net.TCPAddr).Port)
}

func TestEnvoyTakesEverythingThatIsBuilt(t *testing.T) {
	t.Parallel()
	in, plainPort := everyKind(t)
	e := startEnvoy(t, &in)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	at, err := e.process.AwaitListener(ctx, "gateway/default")
	require.NoError(t, err)
	e.awaitActive(t, 3+2*int64(len(in.Providers)))
	require.Zero(t, e.nacks(t))
	require.Empty(t, e.Status().Errors)

	client := e.client(at)
	// There is no ext_proc service here: nothing passes.
	require.Equal(t, reply{503, "gateway_unavailable"}, ask(t, client, "POST", "https://gateway.test/v1/chat/completions",
		"{}"))
	require.Equal(t, reply{413, "request_too_large"}, ask(t, client, "POST", "https://gateway.test/v1/chat/completions",
		strings.Repeat("x", 1001)))
	require.Equal(t, reply{503, "gateway_unavailable"}, ask(t, client, "GET", "https://gateway.test/v1/models/a%2Fb", ""),
		"not refused by Envoy: SDKs escape names")
	require.Equal(t, reply{403, "upgrade_not_supported"}, ask(t, client, "GET", "https://gateway.test/v1/models", "",
		"Connection", "Upgrade", "Upgrade", "websocket"))
	require.Equal(t, reply{431, "headers_too_large"}, ask(t, client, "GET", "https://gateway.test/v1/models", "",
		"X-Long", strings.Repeat("x", 40<<10)))
	for _, path := range []string{"/v1/models", "/"} {
		require.Equal(t, reply{403, "https_required"},
			ask(t, http.DefaultClient, "GET", "http://127.0.0.1:"+strconv.Itoa(int(plainPort))+path, ""))
	}
}

func TestEnvoyTakesANewCertificateAtOnce(t *testing.T) {
	t.Parallel()
	in, _ := everyKind(t)
	e := startEnvoy(t, &in)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	at, err := e.process.AwaitListener(ctx, "gateway/default")
	require.NoError(t, err)
	before := e.serial(t, at)
	e.rotate(t, &in)
	e.publish(t, 2, in)
	require.Eventually(t, func() bool { return e.serial(t, at) != before }, 10*time.Second, 20*time.Millisecond)
	require.Zero(t, e.nacks(t))
}

func TestWhatEnvoyRefusesIsHeldBackAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	// A fault that Envoy finds by itself names the cluster; one against the schema loses the whole response, and names
	// nothing.
	for name, bad := range map[string]*clusterv3.Cluster{
		"which it names":   {Name: "bad/first", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}},
		"in general terms": {Name: "bad/first", ConnectTimeout: durationpb.New(-time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			in, _ := everyKind(t)
			e := startEnvoy(t, &in)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			at, err := e.process.AwaitListener(ctx, "gateway/default")
			require.NoError(t, err)
			e.awaitActive(t, 13)

			in.Providers = append(in.Providers, &configv1.ResolvedProvider{
				Name: "new", Provider: &configv1.Provider{Name: "new", Vendor: "openai", Endpoint: "http://127.0.0.1:1"},
			})
			owner := xds.Object{Kind: xds.KindProvider, Name: "bad"}
			e.publish(t, 2, in, xds.Resource{Role: envoy.RoleEnvoy, Type: clusters, Name: bad.GetName(), Owner: owner,
				Message: bad})
			e.awaitActive(t, 15) // the valid sibling got through
			require.Eventually(t, func() bool { return e.ObjectError("Provider", "bad") != "" }, 10*time.Second,
				20*time.Millisecond)
			require.Empty(t, e.ObjectError("Provider", "new"))
			require.NotZero(t, e.nacks(t))
			require.Equal(t, reply{503, "gateway_unavailable"}, ask(t, e.client(at), "GET", "https://gateway.test/v1/models",
				""))

			// Put right, it is taken.
			e.publish(t, 3, in, xds.Resource{Role: envoy.RoleEnvoy, Type: clusters, Name: "bad/first", Owner: owner,
				Message: &clusterv3.Cluster{
					Name: "bad/first", ConnectTimeout: durationpb.New(time.Second),
				}})
			e.awaitActive(t, 16)
			require.Empty(t, e.ObjectError("Provider", "bad"))
		})
	}
}

// client returns an HTTPS client that trusts the gateway's certificate and connects to the address.
func (e *realEnvoy) client(at netip.AddrPort) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: e.ca, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", at.String())
		},
	}}
}

func (e *realEnvoy) serial(t *testing.T, at netip.AddrPort) string {
	t.Helper()
	conn, err := tls.Dial("tcp", at.String(), &tls.Config{RootCAs: e.ca, ServerName: "gateway.test",
		MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// A reply is what counts of an answer that holds an error.
type reply struct {
	status int
	code   string
}

func ask(t *testing.T, client *http.Client, method, url, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"), "%s", text)
	require.NotEmpty(t, answer.Header.Get("X-Request-Id"))
	code, err := errorCode(text)
	require.NoError(t, err, "%s", text)
	return reply{answer.StatusCode, code}
}

func errorCode(text []byte) (string, error) {
	var doc struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	if doc.Error.Message == "" || doc.Error.Type == "" {
		return "", errors.New("not OpenAI's error")
	}
	return doc.Error.Code, nil
}
