package ha

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/pgtest"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

const replicas = 2

// The secrets of a cluster's control planes.
const pepper, adminToken = "pepper", "admin-token"

// A cluster is a gateway of which there are two of everything, and three of etcd.
type cluster struct {
	t           testing.TB // of all processes
	dir         string
	URL         string // of the service of Envoys
	key         string // of the test itself
	authorities *x509.CertPool

	etcd     []*harness.Etcd
	redis    *redistest.Server // nil: a region, which has none in common with others
	postgres *service          // between the control planes and the database
	database string            // URL of the database itself
	ledger   string            // URL of the ledger, by way of the service

	planes []*part
	data   []*dataPlane
	jobs   []*part

	xds, gateway, internal, jobService *service
}

// A part is a process that can be replaced, by that of another version too.
type part struct {
	t       testing.TB
	args    []string
	running *harness.Process
	binary  string
	at      *endpoint
	service *service
}

// start starts the binary and waits until the service has it.
func (p *part) start(binary string) {
	p.launch(binary)
	p.awaitReady()
}

func (p *part) launch(binary string) {
	p.binary, p.running = binary, start(p.t, binary, p.args...)
}

func (p *part) awaitReady() {
	harness.Eventually(p.t, "the process is ready", func() error {
		if p.running.Ended() {
			p.t.Fatalf("it has ended: %s", p.running.Output())
		}
		if !p.service.isReady(p.at) {
			return errors.New("the service does not send anybody there")
		}
		return nil
	})
}

// replace ends the process, and starts the binary in its place.
func (p *part) replace(binary string) {
	p.end()
	p.start(binary)
}

// end ends it as Kubernetes does: by itself it serves on for a while, in which its readiness says that it ends.
func (p *part) end() {
	p.running.Stop(p.t)
	p.service.unretire(p.at)
}

// newCluster starts one of this version, with a provider and a key.
func newCluster(t testing.TB) *cluster { return newClusterOf(t, harness.Binary(t)) }

// newClusterOf starts one of binaries of any version.
func newClusterOf(t testing.TB, binary string) *cluster {
	dir, err := os.MkdirTemp("", "ha") // a test's own folder is too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir}
	c.database = pgtest.Start(t)
	c.placeLedger()
	c.redis = redistest.Start(t, redistest.Persistent()...)
	c.etcd = harness.StartEtcds(t, 3)
	c.place()
	for _, p := range c.planes {
		p.start(binary)
	}
	c.configure()
	for _, d := range c.data {
		d.start(binary)
	}
	for _, p := range c.jobs {
		p.start(binary)
	}
	c.awaitService()
	return c
}

func (c *cluster) socket(name string) string { return "unix://" + filepath.Join(c.dir, name) }

// placeLedger puts a service between the control planes and PostgreSQL, which is on a Unix socket of a folder.
func (c *cluster) placeLedger() {
	u, err := url.Parse(c.database)
	require.NoError(c.t, err)
	const socket = ".s.PGSQL.5432"
	behind := &endpoint{address: "unix://" + filepath.Join(u.Query().Get("host"), socket),
		probe: func(context.Context) error { return nil }}
	require.NoError(c.t, os.Mkdir(filepath.Join(c.dir, "pg"), 0o700))
	c.postgres = newService(c.t, c.socket("pg/"+socket), behind)
	u.RawQuery = url.Values{"host": {filepath.Join(c.dir, "pg")}}.Encode()
	c.ledger = u.String()
}

// loopback is an address that is free.
func loopback(t testing.TB) string { return fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)) }

// readyz is a probe of an admin address.
func readyz(address string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	}
}

// place decides where everything is, and starts the services.
func (c *cluster) place() {
	t := c.t
	var xds, jobs, gateways, internals []*endpoint
	for range replicas {
		xds = append(xds, c.placePlane(c.etcdEndpoints()))
	}
	c.xds = newService(t, loopback(t), xds...)
	gatewayPort := harness.FreePort(t)
	for i := range replicas {
		d := c.placeData(i, gatewayPort)
		c.data = append(c.data, d)
		gateways, internals = append(gateways, d.at), append(internals, d.internal)

		admin, address := loopback(t), c.socket(fmt.Sprint("jobs.sock.", i))
		e := &endpoint{address: address, probe: readyz(admin)}
		jobs = append(jobs, e)
		c.jobs = append(c.jobs, &part{t: t, at: e, args: []string{"jobsvc", "--listen", address, "--gateway",
			c.socket("internal.sock"), "--admin", admin, "--node", fmt.Sprint("jobs-", i), "--blobs",
			(&url.URL{Scheme: "file", Path: filepath.Join(c.dir, "blobs")}).String(), "--etcd-endpoints", c.etcdEndpoints(),
			"--xds-address", c.xds.address, "--lease", "2s", "--batch-concurrency", "4", "--shutdown-delay", shutdownDelay}})
	}
	c.gateway = newService(t, loopback(t), gateways...)
	c.internal = newService(t, c.socket("internal.sock"), internals...)
	c.jobService = newService(t, c.socket("jobs.sock"), jobs...)
	for i := range replicas {
		c.planes[i].service, c.jobs[i].service = c.xds, c.jobService
	}
	c.URL = "https://" + c.gateway.address
	c.objects(uint32(gatewayPort))
}

// placePlane adds a control plane.
func (c *cluster) placePlane(etcd string) *endpoint {
	admin, address := loopback(c.t), loopback(c.t)
	e := &endpoint{address: address, probe: readyz(admin)}
	c.planes = append(c.planes, &part{t: c.t, at: e, args: []string{"controlplane", "--etcd-endpoints", etcd,
		"--listen", address,
		"--admin", admin, "--ledger", c.ledger, "--pepper", filepath.Join(c.dir, pepper), "--admin-token",
		filepath.Join(c.dir, adminToken), "--shutdown-delay", shutdownDelay}})
	return e
}

// objects writes the configuration to a file.
func (c *cluster) objects(port uint32) {
	pair, err := certs.Ensure(c.dir, []string{"127.0.0.1"}, time.Now())
	require.NoError(c.t, err)
	authority, err := os.ReadFile(filepath.Join(c.dir, certs.FileCA))
	require.NoError(c.t, err)
	c.authorities = x509.NewCertPool()
	require.True(c.t, c.authorities.AppendCertsFromPEM(authority))
	text := harness.Documents(c.t,
		&configv1.Provider{Name: "vendor", Vendor: "openai", Endpoint: newVendor(c.t),
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}},
		&configv1.Certificate{Name: "default", Chain: string(pair.Certificate),
			PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: string(pair.Key)}}},
		&configv1.Gateway{Name: "default", Address: "127.0.0.1", Port: port},
		&configv1.JobService{Name: "default", Address: c.socket("jobs.sock"), Listen: c.socket("internal.sock")})
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, "objects.yaml"), []byte(text), 0o600))
}

func (c *cluster) etcdEndpoints() string {
	var all []string
	for _, e := range c.etcd {
		all = append(all, e.Endpoint())
	}
	return strings.Join(all, ",")
}

// configure applies the configuration and makes a key.
func (c *cluster) configure() {
	harness.Must(c.t, "", append([]string{"config", "apply", "-f", filepath.Join(c.dir, "objects.yaml")},
		c.server(0)...)...)
	_, c.key = c.createKey(c.t, 0, "test")
}

// server are the flags with which commands find a control plane.
func (c *cluster) server(i int) []string {
	args := c.planes[i].args
	token, err := os.ReadFile(filepath.Join(c.dir, adminToken))
	require.NoError(c.t, err)
	return []string{"--server", "http://" + args[6], "--token", strings.TrimSpace(string(token))}
}

func (c *cluster) createKey(t testing.TB, plane int, name string, flags ...string) (id, key string) {
	t.Helper()
	made := harness.Decode(t, harness.Must(t, "",
		append(append([]string{"key", "create", "--create-missing", "--name", name, "-o", "json"}, flags...),
			c.server(plane)...)...))
	return made["id"].(string), made["key"].(string)
}

// as asks a model with a key, over a connection of its own, and returns the status.
func (c *cluster) as(key, model string) (int, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: c.transport()}
	defer client.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodPost, c.URL+"/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, model)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// accepts waits until both data planes, which take turns, answer a key so.
func (c *cluster) accepts(t testing.TB, key string, want int) {
	t.Helper()
	harness.Eventually(t, "the key is answered so", func() error {
		for range 2 * replicas {
			if status, err := c.as(key, "vendor/probe"); err != nil || status != want {
				return fmt.Errorf("status %d, %w", status, err)
			}
		}
		return nil
	})
}

// client asks for files and jobs with the test's own key.
func (c *cluster) client() harness.Client {
	return harness.Client{Gateway: &cases.Gateway{URL: c.URL, Key: c.key, Client: &http.Client{Transport: c.transport(),
		Timeout: 10 * time.Second}}}
}

// awaitService waits until requests and jobs are served.
func (c *cluster) awaitService() {
	g := c.client()
	harness.Eventually(c.t, "service", func() error {
		status, err := c.as(c.key, "vendor/probe")
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("status %d, %w", status, err)
		}
		var list struct{}
		return g.Try(http.MethodGet, "/v1/batches", &list)
	})
}
