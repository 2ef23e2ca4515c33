package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// A jobSplit is the gateway as processes of their own, with up to two job services. Envoy reaches the first, and both
// work.
type jobSplit struct {
	*split
	services [2]*harness.Process
	flags    []string // of the job services
}

func newJobSplit(t testing.TB, flags ...string) *jobSplit {
	s := &jobSplit{split: newSplit(t), flags: flags}
	s.onSockets()
	return s
}

// onSockets has all parts meet on this machine.
func (s *jobSplit) onSockets() {
	s.listen = [2]string{s.socket("xds0"), s.socket("xds1")}
	s.client = []string{"--xds-address", s.listen[0]}
	s.object = &configv1.JobService{Name: "default", Address: s.socket("jobs0"), Listen: s.socket("internal")}
}

// blobs is the folder of the blob store.
func (s *jobSplit) blobs() string { return filepath.Join(s.Dir, "blobs") }

// startService starts a job service. It does not wait until it works.
func (s *jobSplit) startService(i int) {
	address := s.object.GetAddress()
	if i > 0 && s.object.GetTls() == nil {
		address = s.socket(fmt.Sprint("jobs", i))
	}
	args := []string{"jobsvc", "--listen", address, "--gateway", s.object.GetListen(), "--blobs",
		(&url.URL{Scheme: "file", Path: s.blobs()}).String(),
		"--etcd-endpoints", s.endpoint, "--admin", "127.0.0.1:0", "--node", fmt.Sprint("jobs", i)}
	s.services[i] = harness.Launch(s.t, nil, append(append(args, s.client...), s.flags...)...)
}

// awaitJobs waits until files can be listed.
func (s *jobSplit) awaitJobs(t testing.TB) {
	t.Helper()
	harness.Eventually(t, "the job service answers", func() error {
		status, err := s.get("/v1/files", s.Key)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
}

// as returns a client of files and jobs with a key.
func (s *jobSplit) as(key string) harness.Client { return s.Gateway.As(key) }

// createKey creates a key of an organization and waits until it works.
func (s *jobSplit) createKey(t testing.TB, organization string) (id, key string) {
	t.Helper()
	made := harness.Decode(t, harness.Must(t, "",
		append([]string{"key", "create", "--create-missing", "--name", "test", "--organization", organization, "-o", "json"},
			s.at(0)...)...))
	id, key = made["id"].(string), made["key"].(string)
	harness.Eventually(t, "the key works", func() error { return s.accepts(key) })
	return id, key
}

// addProvider adds a provider of OpenAI's dialect.
func (s *jobSplit) addProvider(t testing.TB, name, endpoint string) {
	t.Helper()
	text := harness.Documents(t, &configv1.Provider{Name: name, Vendor: "openai", Endpoint: endpoint,
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "credential"}}})
	harness.Must(t, text, append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
	harness.Eventually(t, "the provider", func() error { return s.has(name + "/any") })
}
