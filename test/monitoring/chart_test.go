package monitoring_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

func TestMetricNamesOfAQuery(t *testing.T) {
	require.Equal(t, []string{"envoy_cluster_upstream_rq_xx", "go_goroutines", "modelgate_build_info"}, metricNames(`sum by (modelgate_provider, go_x) (rate(envoy_cluster_upstream_rq_xx{envoy_cluster_name=~"($provider)/.{2}"}[5m])) / on (job) group_left (modelgate_x) go_goroutines and modelgate_build_info`))
}

// TestAlertsOnSeries runs the cases in testdata: every alert fires, and none of them where all is well.
func TestAlertsOnSeries(t *testing.T) {
	promtool(t, "check", "rules", rulesFile(t))
	cases := filepath.Join("testdata", "alerts.yaml")
	promtool(t, "test", "rules", cases)
	text, err := os.ReadFile(cases)
	require.NoError(t, err)
	for name := range alerts(t) {
		require.Contains(t, string(text), `alertname="`+name+`"`, "an alert without a case in which it fires")
	}
}

// TestRunbooks holds that whoever is woken finds what to do.
func TestRunbooks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "operate.md"))
	require.NoError(t, err)
	all := alerts(t)
	var sections []string
	for _, heading := range regexp.MustCompile(`(?m)^### (Modelgate\w+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, heading[1])
	}
	require.Equal(t, slices.Sorted(maps.Keys(all)), slices.Sorted(slices.Values(sections)),
		"alerts, and sections of docs/operate.md")
	for name, a := range all {
		require.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], name)
		require.NotEmpty(t, a.Annotations["summary"], name)
		require.NotEmpty(t, a.Annotations["description"], name)
		require.True(t, strings.HasSuffix(a.Annotations["runbook_url"], "/docs/operate.md#"+strings.ToLower(name)), "%s: %s",
			name, a.Annotations["runbook_url"])
		_, section, _ := strings.Cut(string(text), "\n### "+name+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		for _, part := range []string{"**Users see**", "**Look**", "**Do**", "```sh"} {
			require.Contains(t, section, part, name)
		}
	}
}

func TestDashboardsAreWhatGrafanaTakes(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		require.False(t, uids[d.UID], d.UID)
		uids[d.UID] = true
		require.Equal(t, "null", string(d.ID), "an id is the database's of one Grafana")
		text, err := os.ReadFile(filepath.Join(testenv.Root(t), "charts", "modelgate", "dashboards", d.UID+".json"))
		require.NoError(t, err)
		for _, uid := range regexp.MustCompile(`"uid": "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			require.Contains(t, []string{d.UID, "${datasource}", "-- Grafana --"}, uid[1],
				"%s names a data source of somebody's", d.UID)
		}
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			require.False(t, ids[p.ID], "%s/%s: the id %d is another's", d.Title, p.Title, p.ID)
			ids[p.ID] = true
			require.LessOrEqual(t, p.Grid.X+p.Grid.W, 24, p.Title)
			for x := range p.Grid.W {
				for y := range p.Grid.H {
					at := [2]int{p.Grid.X + x, p.Grid.Y + y}
					require.Empty(t, taken[at], "%s/%s lies on another", d.Title, p.Title)
					taken[at] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			require.NotEmpty(t, p.Description, "%s/%s", d.Title, p.Title)
			require.NotEmpty(t, p.FieldConfig.Defaults.Unit, "%s/%s", d.Title, p.Title)
			require.NotEmpty(t, p.Targets, "%s/%s", d.Title, p.Title)
		}
	}
}
