package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A metric is one, as docs/observability.md or a process has it.
type metric struct {
	kind   string
	labels []string // sorted
}

var (
	documented = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\|[^|]*\\|([^|]*)\\|")
	quoted     = regexp.MustCompile("`([a-z_]+)`")
	label      = regexp.MustCompile(`([a-z_]+)="`)
)

// inDocs are the metrics of the page.
func inDocs(t *testing.T) map[string]metric {
	text, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	all := map[string]metric{}
	for _, row := range documented.FindAllStringSubmatch(string(text), -1) {
		m := metric{kind: row[2]}
		for _, name := range quoted.FindAllStringSubmatch(row[3], -1) {
			m.labels = append(m.labels, name[1])
		}
		slices.Sort(m.labels)
		all[row[1]] = m
	}
	require.NotEmpty(t, all)
	return all
}

// scraped are the metrics of a process, but for those of Go and of the operating system. A label counts that any
// series has.
func scraped(text string) map[string]metric {
	all := map[string]metric{}
	var name string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			var kind string
			name, kind, _ = strings.Cut(rest, " ")
			if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
				all[name] = metric{kind: kind}
			}
			continue
		}
		m, ok := all[name]
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		for _, l := range label.FindAllStringSubmatch(line, -1) {
			if l[1] != "le" && !slices.Contains(m.labels, l[1]) {
				m.labels = append(m.labels, l[1])
			}
		}
		slices.Sort(m.labels)
		all[name] = m
	}
	return all
}

// TestMetricsAreDocumented uses whatever there is to be counted, and compares what is counted then with the page.
func TestMetricsAreDocumented(t *testing.T) {
	g := startRun(t, t.TempDir())
	busy := cases.NewProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
	})
	signing := &configv1.Credential{Source: &configv1.Credential_Value{Value: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}}
	g.Apply(t,
		&configv1.AuditSink{Name: "nowhere", Webhook: &configv1.AuditWebhook{Url: "https://127.0.0.1:1/"},
			Credential: signing},
		&configv1.Provider{Name: "busy", Vendor: "openai", Endpoint: busy.URL + "/v1",
			Concurrency: &configv1.Concurrency{MaxRequests: 9}},
		&configv1.Model{Name: "falls-back", Targets: []*configv1.Target{{Provider: "busy", Model: "m"},
			{Provider: "echo", Model: "echo", Priority: 1}}},
		&configv1.Guardrail{Name: "g", Models: []string{"falls-back"}, Rules: []*configv1.GuardRule{{Name: "r",
			Mode: configv1.GuardMode_OBSERVE, Words: []string{"hi"}}}},
		&configv1.ResponseCache{Name: "c", Models: []string{"falls-back"}, MaxTemperature: 1,
			Similar: &configv1.SimilarAnswers{Url: "https://127.0.0.1:1/", Model: "m"}},
		&configv1.Webhook{Name: "hook", Url: "https://127.0.0.1:1/", Secret: signing})
	harness.Eventually(t, "configuration in force", func() error { return g.has("falls-back") })
	c := g.As(g.Key)
	chat := func(model, more string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]` + more + `}`
	}
	require.Equal(t, 200, c.Do(t, http.MethodPost, chatPath,
		strings.Replace(chat("falls-back", ""), "hi", "hi there, is it compared?", 1)).Status)
	require.Equal(t, 200, c.Do(t, http.MethodPost, chatPath, chat("echo/echo", `,"stream":true`)).Status)
	require.Equal(t, 429, c.Do(t, http.MethodPost, chatPath, chat("busy/m", "")).Status)
	limited := c
	made := harness.Decode(t, harness.Must(t, "", "key", "create", "--data", g.Dir, "--name", "limited", "--rpm", "1",
		"-o", "json"))
	limited.Gateway = &cases.Gateway{URL: g.URL, Key: made["key"].(string), Client: g.Client}
	harness.Eventually(t, "a limit refuses", func() error { // first the key is unknown, and then lets one request in
		if limited.Do(t, http.MethodPost, chatPath, chat("echo/echo", "")).Status != 429 {
			return errStill
		}
		return nil
	})
	require.Equal(t, 1, c.Await(t, c.Begin(t, chatPath, harness.ChatLine("a", "echo/echo", "hi"))).Counts.Completed)

	want := inDocs(t)
	require.Contains(t, want, "modelgate_etcd_request_duration_seconds")
	delete(want, "modelgate_etcd_request_duration_seconds") // run has an etcd of its own; measure_test.go has its test
	require.Contains(t, want, "modelgate_peer_failures_total")
	delete(want, "modelgate_peer_failures_total") // its ext_proc service is one process
	harness.Eventually(t, "all that the page has is there, and nothing else", func() error {
		_, text := g.adminGet(t, "/metrics")
		return compareMetrics(want, scraped(text))
	})
}

// compareMetrics says in what the page and a process differ.
func compareMetrics(page, process map[string]metric) error {
	var all []error
	for name, m := range page {
		if there, ok := process[name]; !ok || there.kind != m.kind || !slices.Equal(there.labels, m.labels) {
			all = append(all, fmt.Errorf("the page has %s %v, the process %v", name, m, there))
		}
	}
	for name := range process {
		if _, ok := page[name]; !ok {
			all = append(all, fmt.Errorf("the page does not have %s", name))
		}
	}
	return errors.Join(all...)
}
