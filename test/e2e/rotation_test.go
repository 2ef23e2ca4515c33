package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// A mount is a folder as Kubernetes mounts a secret: the files are links through ..data, which is replaced as a whole.
type mount struct {
	t       *testing.T
	dir     string
	version int
}

func newMount(t *testing.T, dir, name string, files map[string][]byte) *mount {
	m := &mount{t: t, dir: filepath.Join(dir, name)}
	require.NoError(t, os.Mkdir(m.dir, 0o700))
	m.replace(files)
	for name := range files {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), m.file(name)))
	}
	return m
}

func (m *mount) file(name string) string { return filepath.Join(m.dir, name) }

func (m *mount) replace(files map[string][]byte) {
	m.version++
	next := fmt.Sprintf("..version_%d", m.version)
	require.NoError(m.t, os.Mkdir(m.file(next), 0o700))
	for name, text := range files {
		require.NoError(m.t, os.WriteFile(filepath.Join(m.file(next), name), text, 0o600))
	}
	require.NoError(m.t, os.Symlink(next, m.file("..data_tmp")))
	require.NoError(m.t, os.Rename(m.file("..data_tmp"), m.file("..data")))
	require.NoError(m.t, os.RemoveAll(m.file(fmt.Sprintf("..version_%d", m.version-1))))
}

// flags are those of mutual TLS with a prefix.
func (m *mount) flags(prefix string) []string {
	return []string{prefix + "cert", m.file("tls.crt"), prefix + "key", m.file("tls.key"), prefix + "ca",
		m.file("ca.crt")}
}

// secret is what cert-manager writes: a certificate for the names, and whom to trust.
func (a *authority) secret(name string, trusted ...*authority) map[string][]byte {
	a.issue(name)
	read := func(a *authority, name string) []byte {
		text, err := os.ReadFile(filepath.Join(a.dir, name))
		require.NoError(a.t, err)
		return text
	}
	var bundle bytes.Buffer
	for _, t := range trusted {
		bundle.Write(read(t, "xds-ca.crt"))
	}
	return map[string][]byte{"tls.crt": read(a, name+".crt"), "tls.key": read(a, name+".key"), "ca.crt": bundle.Bytes()}
}

// TestCertificatesOfXDSRotate changes the authority of the connections to the control plane, while Envoy and the
// ext_proc service run on.
func TestCertificatesOfXDSRotate(t *testing.T) {
	s := newSplit(t)
	before, after := newAuthority(t, t.TempDir()), newAuthority(t, t.TempDir())
	plane := newMount(t, s.Dir, "controlplane", before.secret("controlplane", before))
	data := newMount(t, s.Dir, "dataplane", before.secret("dataplane", before))
	jobs := newMount(t, s.Dir, "jobsvc", before.secret("jobsvc", before))
	s.listen[0] = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	s.serve = append(plane.flags("--xds-"), "--xds-dataplane-name", "dataplane", "--xds-jobs-name", "jobsvc")
	shown := func(m *mount) []string {
		return append(m.flags("--xds-"), "--xds-address", s.listen[0], "--xds-name", "controlplane")
	}
	s.client = shown(data)
	s.startSupervised()
	envoyPID := s.envoyPID(t)

	// asOne connects another ext_proc service with a certificate.
	asOne := func(t *testing.T, m *mount, want string) {
		t.Helper()
		p := harness.Launch(t, nil, append([]string{"extproc", "--listen", s.socket("another"), "--admin", "127.0.0.1:0",
			"--spool", t.TempDir()}, shown(m)...)...)
		p.WaitFor(t, want)
		p.Kill()
	}
	// changes reach Envoy and the ext_proc service.
	changed := func(t *testing.T, name string) {
		t.Helper()
		harness.Must(t, harness.Documents(t, &configv1.Provider{Name: name, Vendor: "echo", Endpoint: s.echo,
			Models: []string{"echo"}}),
			append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
		harness.Eventually(t, "the change", func() error {
			status, body, err := s.post("/v1/chat/completions", s.Key,
				fmt.Sprintf(`{"model":"%s/echo","messages":[{"role":"user","content":"hi"}]}`, name))
			if err == nil && status != http.StatusOK {
				err = errors.New(body)
			}
			return err
		})
		require.Equal(t, envoyPID, s.envoyPID(t), "no process was started again")
		require.False(t, s.extproc.Ended())
	}
	restart := func() {
		s.planes[0].Kill()
		s.planes[0] = s.startPlane(0)
		s.planes[1] = s.planes[0]
	}

	t.Run("a job service is not given what is the data plane's", func(t *testing.T) {
		asOne(t, jobs, "the certificate is not for dataplane")
		require.Contains(t, s.planes[0].Output(), "its certificate has not the name of its role")
	})
	t.Run("both authorities are trusted", func(t *testing.T) {
		plane.replace(before.secret("controlplane", before, after))
		data.replace(before.secret("dataplane", before, after))
		asOne(t, newMount(t, s.Dir, "new", after.secret("dataplane", before, after)), "configuration received")
		asOne(t, data, "configuration received")
		changed(t, "p1")
	})
	t.Run("certificates are of the new one", func(t *testing.T) {
		plane.replace(after.secret("controlplane", before, after))
		data.replace(after.secret("dataplane", before, after))
		asOne(t, data, "configuration received")
		changed(t, "p2")
		restart()
		changed(t, "p3")
	})
	t.Run("the old one is not trusted any more", func(t *testing.T) {
		plane.replace(after.secret("controlplane", after))
		data.replace(after.secret("dataplane", after))
		asOne(t, newMount(t, s.Dir, "old", before.secret("dataplane", after)), "no stream to the control plane")
		harness.Eventually(t, "the refusal is logged", func() error {
			if !bytes.Contains([]byte(s.planes[0].Output()), []byte("a client was refused because of its certificate")) {
				return errStill
			}
			return nil
		})
		restart()
		changed(t, "p4")
	})
	t.Run("a certificate that has expired is said to have", func(t *testing.T) {
		after.life = -time.Minute
		asOne(t, newMount(t, s.Dir, "expired", after.secret("dataplane", after)), "this process's certificate has expired")
	})
}

// TestTheGatewaysCertificateRotates renews the certificate that clients see, as cert-manager does, while they are
// connected.
func TestTheGatewaysCertificateRotates(t *testing.T) {
	s := newSplit(t)
	authority := newAuthority(t, t.TempDir())
	public := newMount(t, s.Dir, "tls", authority.secret("localhost", authority))
	s.listen[0] = s.socket("xds0")
	s.client = []string{"--xds-address", s.listen[0]}
	s.startSupervised()
	held := newHeldProvider(t)
	objects := func(c *configv1.Certificate) string {
		return harness.Documents(t, c, &configv1.Provider{Name: "held", Vendor: "compatible", Endpoint: held.URL + "/v1"})
	}
	fromFiles := &configv1.Certificate{Name: "default", ChainFile: public.file("tls.crt"),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_File{File: public.file("tls.key")}}}
	apply := append([]string{"config", "apply", "-f", "-"}, s.at(0)...)
	harness.Must(t, objects(fromFiles), apply...)

	seen := func() ([]byte, error) {
		c, err := tls.Dial("tcp", s.URL[len("https://"):], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		return c.ConnectionState().PeerCertificates[0].Raw, nil
	}
	shows := func(t *testing.T, text []byte) {
		t.Helper()
		block, _ := pem.Decode(text)
		harness.Eventually(t, "the certificate is shown", func() error {
			now, err := seen()
			if err == nil && !bytes.Equal(now, block.Bytes) {
				err = errStill
			}
			return err
		})
	}
	first := authority.secret("localhost", authority)
	public.replace(first)
	shows(t, first["tls.crt"])

	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(first["ca.crt"]))
	s.Client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost"}}}
	response, body := s.openHeld(t)
	defer func() { _ = response.Body.Close() }()

	// What is torn stays as it was, and is said.
	torn := authority.secret("localhost", authority)
	torn["tls.key"] = first["tls.key"]
	public.replace(torn)
	harness.Eventually(t, "the error is shown", func() error {
		out := harness.Must(t, "", append([]string{"config", "get", "certificates", "default", "-o", "json"}, s.at(0)...)...)
		if !bytes.Contains([]byte(out), []byte("private key does not match")) {
			return errors.New(out)
		}
		return nil
	})
	shows(t, first["tls.crt"])

	second := authority.secret("localhost", authority)
	public.replace(second)
	shows(t, second["tls.crt"])
	closes, err := s.newConnection()
	require.NoError(t, err)
	require.False(t, closes, "nothing is drained for it")
	close(held.finish)
	rest, err := io.ReadAll(body)
	require.NoError(t, err, "a stream that was open goes on")
	require.Contains(t, string(rest), "[DONE]")
}

// TestCertificatesOfTheJobServiceRotate changes the authority by which Envoy and the job service know each other,
// while both run on, and with nothing but files that are replaced.
func TestCertificatesOfTheJobServiceRotate(t *testing.T) {
	s := &jobSplit{split: newSplit(t)}
	s.onSockets()
	before, after := newAuthority(t, t.TempDir()), newAuthority(t, t.TempDir())
	// of the control plane, which sends it to Envoy
	internal := newMount(t, s.Dir, "internal", before.secret("envoy", before))
	jobs := newMount(t, s.Dir, "jobs", before.secret("jobsvc", before))
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t)) }
	s.object = &configv1.JobService{Name: "default", Address: address(), Listen: address(),
		Tls: &configv1.MutualTLS{Certificate: "internal", CaFile: internal.file("ca.crt"), ServerName: "jobsvc"}}
	s.extra = []configv1.Object{&configv1.Certificate{Name: "internal", ChainFile: internal.file("tls.crt"),
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_File{File: internal.file("tls.key")}}}}
	s.flags = append(jobs.flags("--tls-"), "--tls-name", "envoy")
	s.start()
	s.startService(0)
	s.awaitJobs(t)
	batch := func(t *testing.T) {
		t.Helper()
		c := s.as(s.Key)
		b := c.Await(t, c.Begin(t, chatPath, lines("echo/echo", 5)...))
		require.Equal(t, "completed", b.Status)
		require.Len(t, c.Results(t, b.OutputFileID), 5)
	}
	batch(t)
	internal.replace(before.secret("envoy", before, after))
	jobs.replace(before.secret("jobsvc", before, after))
	batch(t)
	// The certificate that Envoy shows, as it is when the control plane has read it.
	shows := func(t *testing.T, want map[string][]byte) {
		t.Helper()
		block, _ := pem.Decode(want["tls.crt"])
		harness.Eventually(t, "the certificate is shown", func() error {
			c, err := tls.Dial("tcp", s.object.GetListen(), &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			if !bytes.Equal(c.ConnectionState().PeerCertificates[0].Raw, block.Bytes) {
				return errStill
			}
			return nil
		})
	}
	renewed := after.secret("envoy", before, after)
	internal.replace(renewed)
	shows(t, renewed)
	jobs.replace(after.secret("jobsvc", before, after))
	batch(t)
	only := after.secret("envoy", after)
	internal.replace(only)
	shows(t, only)
	jobs.replace(after.secret("jobsvc", after))
	s.services[0].Kill() // so that every connection is a new one
	s.startService(0)
	s.awaitJobs(t)
	batch(t)
}
