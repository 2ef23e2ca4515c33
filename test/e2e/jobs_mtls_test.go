package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// TestJobsAcrossANetwork has Envoy and the job service meet on ports, where both must show who they are.
func TestJobsAcrossANetwork(t *testing.T) {
	s := &jobSplit{split: newSplit(t), flags: []string{"--lease", "2s"}}
	s.onSockets()
	authority := newAuthority(t, s.Dir)
	for _, name := range []string{"jobs", "envoy", "other"} {
		authority.issue(name)
	}
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	read := func(name string) string {
		b, err := os.ReadFile(file(name))
		require.NoError(t, err)
		return string(b)
	}
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)) }
	s.object = &configv1.JobService{Name: "default", Address: address(), Listen: address(),
		Tls: &configv1.MutualTLS{Certificate: "envoy", Ca: read("xds-ca.crt"), ServerName: "jobs"}}
	s.extra = []configv1.Object{&configv1.Certificate{Name: "envoy", Chain: read("envoy.crt"),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: read("envoy.key")}}}}
	s.flags = append(s.flags, "--tls-cert", file("jobs.crt"), "--tls-key", file("jobs.key"), "--tls-ca",
		file("xds-ca.crt"), "--tls-name", "envoy")
	s.start()
	s.startService(0)
	s.awaitJobs(t)
	c := s.as(s.Key)
	b := c.Await(t, c.Begin(t, chatPath, lines("echo/echo", 50)...))
	require.Equal(t, "completed", b.Status)
	require.Len(t, c.Results(t, b.OutputFileID), 50)

	stranger := newAuthority(t, t.TempDir())
	stranger.issue("jobs")
	own := func(dir, name string) []tls.Certificate {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
		require.NoError(t, err)
		return []tls.Certificate{pair}
	}
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(read("xds-ca.crt"))))
	for name, certificates := range map[string][]tls.Certificate{
		"without a certificate": nil, "of another authority": own(stranger.dir, "jobs"),
		"of another name": own(s.Dir, "other"),
	} {
		t.Run(name, func(t *testing.T) {
			for at, server := range map[string]string{s.object.GetListen(): "envoy", s.object.GetAddress(): "jobs"} {
				answer, err := askAs(t, at, s.keyID, &tls.Config{RootCAs: pool, ServerName: server, Certificates: certificates})
				require.Error(t, err, "%s: %s", server, answer)
			}
		})
	}
	answer, err := askAs(t, s.object.GetListen(), s.keyID, &tls.Config{RootCAs: pool, ServerName: "envoy",
		Certificates: own(s.Dir, "jobs")})
	require.NoError(t, err, "the test asks as the job service does")
	require.Contains(t, answer, "200")

	// Nor is anything served on a network without certificates, by either.
	out, err := harness.Command(t, "", "jobsvc", "--listen", "127.0.0.1:0", "--gateway", s.socket("x"), "--blobs",
		"file://"+s.blobs(), "--etcd-endpoints", s.endpoint)
	require.Error(t, err)
	require.Contains(t, out, "--tls-cert")
	plain := harness.Documents(t, &configv1.JobService{Name: "default", Address: "127.0.0.1:1", Listen: "127.0.0.1:2"})
	out, err = harness.Command(t, plain, append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	require.Error(t, err)
	require.Contains(t, out, "tls")
}

// askAs asks for the models on behalf of a key that is named, as only the job service may.
func askAs(t *testing.T, at, key string, config *tls.Config) (string, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/v1/models/echo%2Fecho", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("X-Modelgate-Key", key)
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	return strings.TrimSpace(response.Status + " " + string(body)), err
}
