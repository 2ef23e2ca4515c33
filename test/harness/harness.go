// Package harness builds the gateway and starts its processes, for tests of the whole system: the binary, the real
// Envoy, real TLS, real etcd.
//
// A package whose tests use it has TestMain call [Main]. Some processes are the test's own binary,
// started again in another role.
package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// patience is how long what must happen may take. A machine that runs these tests may be slow; a wait that succeeds is
// not longer for it.
const patience = time.Minute

// Clocks is how far apart a busy machine may put the times at which a test and the gateway see the same event.
const Clocks = 5 * time.Second

// Main runs a package's tests and removes what was built for them.
func Main(m *testing.M) { MainWith(m, (*testing.M).Run) }

// MainWith is Main for tests that something else runs, with what they need.
func MainWith(m *testing.M, run func(*testing.M) int) {
	if where := os.Getenv(envEtcd); where != "" {
		if err := serveEtcd(where); err != nil {
			log.Fatal(err)
		}
		return
	}
	run(m) // whose result the process ends with
	if dir, err := folder(); err == nil {
		_ = os.RemoveAll(dir) // it is in the folder of temporary files
	}
}

// folder is where the binary is.
var folder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "modelgate-test-") })

// envBinary is the environment variable that names a binary of this code. Without it each package builds its own.
const envBinary = "MODELGATE_BINARY"

// binary builds the gateway once, without what only a debugger reads, as it is shipped.
var binary = sync.OnceValues(func() (string, error) {
	if built := os.Getenv(envBinary); built != "" {
		return built, nil
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "modelgate")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path,
		"github.com/modelgate/modelgate/cmd/modelgate").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w:\n%s", err, out)
	}
	return path, nil
})

// Binary returns the path of the gateway's binary.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return path
}

// CleanEnv is the environment without what would change a client or lead it beyond this machine: proxies, accounts,
// authorities, tracing.
func CleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(e), "=")
		begins := func(with string) bool { return strings.HasPrefix(name, with) }
		return strings.HasSuffix(name, "_PROXY") || strings.HasSuffix(name, "_API_KEY") ||
			slices.ContainsFunc([]string{"OPENAI_", "SSL_CERT_", "NODE_", "PYTHON", "LANGCHAIN_", "LANGSMITH_"}, begins)
	})
}

// Command runs a command of the gateway's to its end and returns what it printed.
func Command(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Env = CleanEnv()
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return string(out) + stderr.String(), err
}

// Must is Command for those that must succeed.
func Must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := Command(t, stdin, args...)
	require.NoError(t, err, out)
	return out
}

// Eventually waits until check succeeds: for what happens in another process, and has no line to wait for.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	Within(t, patience, what, check)
}

// Within is Eventually for what takes its time by design.
func Within(t testing.TB, longest time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// Documents renders objects as what "config apply" reads.
func Documents(t testing.TB, objects ...configv1.Object) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		y, err := configv1.MarshalYAML(o)
		require.NoError(t, err)
		b.WriteString("---\n")
		b.Write(y)
	}
	return b.String()
}

// Decode returns a JSON object.
func Decode(t testing.TB, s string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(s), &m), s)
	return m
}

// ClientFor returns a client that trusts a certificate authority and nothing else.
func ClientFor(t testing.TB, ca string) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(ca)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 100, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// FreePort returns a port of loopback that nobody uses. It is not one of those that the system gives to outgoing
// connections (on Linux from 32768 on), which might take it while a process that listens there is being replaced.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(22_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}
