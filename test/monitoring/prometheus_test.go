package monitoring_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// tool finds a program of Debian's package prometheus.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testenv.Missing(t, name, "tools/services/install.sh")
	}
	return path
}

// A prometheus is one that scrapes a system.
type prometheus struct{ url string }

// startPrometheus starts one that scrapes every process, under the labels that it has in a cluster, and evaluates the
// alerts.
func startPrometheus(t testing.TB, binary string, s *system) *prometheus {
	t.Helper()
	type object = map[string]any
	var scraped []object
	for name := range s.processes {
		scraped = append(scraped, object{"job_name": "modelgate-" + name, "static_configs": []object{{
			"targets": []string{s.admin(name)}, "labels": object{"namespace": "modelgate", "pod": "modelgate-" + name + "-0"},
		}}})
	}
	config, err := json.Marshal(object{ // which is YAML
		"global":         object{"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
		"rule_files":     []string{rulesFile(t)},
		"scrape_configs": scraped,
	})
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	cmd := exec.Command(binary, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", address, "--log.level", "warn")
	cmd.Env = harness.CleanEnv()
	process := harness.Start(t, cmd)
	p := &prometheus{url: "http://" + address}
	harness.Eventually(t, "Prometheus is ready", func() error {
		if process.Ended() {
			t.Fatalf("Prometheus has ended: %s", process.Output())
		}
		return p.get("/-/ready", nil)
	})
	return p
}

// get asks and decodes the data of the answer, unless into is nil.
func (p *prometheus) get(path string, into any) error {
	response, err := http.Get(p.url + path)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, &struct {
		Data any `json:"data"`
	}{into})
}

// finds returns an error unless a query has had a number in the last seconds.
func (p *prometheus) finds(query string) error {
	now := time.Now()
	q := url.Values{"query": {query}, "start": {fmt.Sprint(now.Add(-3 * time.Second).Unix())},
		"end": {fmt.Sprint(now.Unix())}, "step": {"1"}}
	var found struct {
		Result []struct {
			Values [][2]any `json:"values"`
		} `json:"result"`
	}
	if err := p.get("/api/v1/query_range?"+q.Encode(), &found); err != nil {
		return err
	}
	for _, series := range found.Result {
		for _, v := range series.Values {
			if text, ok := v[1].(string); ok && text != "NaN" {
				if _, err := strconv.ParseFloat(text, 64); err == nil {
					return nil
				}
			}
		}
	}
	return fmt.Errorf("nothing but %d series without a number", len(found.Result))
}

// labelValues returns the values that a label has, of series that match or of all.
func (p *prometheus) labelValues(label, match string) (values []string, err error) {
	q := url.Values{}
	if match != "" {
		q.Set("match[]", match)
	}
	err = p.get("/api/v1/label/"+label+"/values?"+q.Encode(), &values)
	return slices.DeleteFunc(values, func(v string) bool { return v == "" }), err
}

// A loadedRule is a rule as Prometheus has it.
type loadedRule struct {
	Name      string `json:"name"`
	Health    string `json:"health"`
	LastError string `json:"lastError"`
}

func (p *prometheus) rules() (all []loadedRule, err error) {
	var loaded struct {
		Groups []struct {
			Rules []loadedRule `json:"rules"`
		} `json:"groups"`
	}
	err = p.get("/api/v1/rules", &loaded)
	for _, g := range loaded.Groups {
		all = append(all, g.Rules...)
	}
	return all, err
}

// alerts returns the names of the alerts that fire, or would if they went on.
func (p *prometheus) alerts() (names []string, err error) {
	var told struct {
		Alerts []struct {
			Labels map[string]string `json:"labels"`
		} `json:"alerts"`
	}
	err = p.get("/api/v1/alerts", &told)
	for _, a := range told.Alerts {
		names = append(names, a.Labels["alertname"])
	}
	return names, err
}

// promtool runs a command of Prometheus's own tool.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(tool(t, "promtool"), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.True(t, strings.Contains(string(out), "SUCCESS"), "%s", out)
}

func rulesFile(t testing.TB) string {
	return filepath.Join(testenv.Root(t), "charts", "modelgate", "alerts", "modelgate.yaml")
}
