package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestDashboardsAreShipped: every file parses, has a name and an id of its own, and comes whole into a ConfigMap.
func TestDashboardsAreShipped(t *testing.T) {
	shipped := map[string]string{}
	for _, c := range all[*corev1.ConfigMap](render(t, form(t, "everything bundled and kept"))) {
		if c.Labels["grafana_dashboard"] == "1" {
			require.Len(t, c.Data, 1, c.Name)
			for name, text := range c.Data {
				require.Less(t, len(text), 1<<20, "%s is larger than an object may be", name)
				shipped[name] = text
			}
		}
	}
	paths, err := filepath.Glob(filepath.Join(chartDir, "dashboards", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	uids := map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.JSONEq(t, string(want), shipped[name], name)
		var dashboard struct {
			UID, Title string
			Panels     []struct {
				Type    string
				Targets []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(want, &dashboard), name)
		require.NotEmpty(t, dashboard.Title, name)
		require.NotEmpty(t, dashboard.UID, name)
		require.NotContains(t, uids, dashboard.UID, name)
		uids[dashboard.UID] = name
		queries := 0
		for _, p := range dashboard.Panels {
			queries += len(p.Targets)
		}
		require.NotZero(t, queries, "%s asks nothing", name)
		delete(shipped, name)
	}
	require.Empty(t, shipped, "dashboards that are no files")
}

// TestAlertsAreShipped, each with what somebody who is woken needs.
func TestAlertsAreShipped(t *testing.T) {
	rules := all[*monitoringv1.PrometheusRule](render(t, form(t, "everything bundled and kept")))
	require.NotEmpty(t, rules)
	seen := map[string]bool{}
	for _, r := range rules {
		for _, g := range r.Spec.Groups {
			for _, rule := range g.Rules {
				require.NotEmpty(t, rule.Expr.String())
				if rule.Alert == "" {
					continue
				}
				require.False(t, seen[rule.Alert], "%s is there twice", rule.Alert)
				seen[rule.Alert] = true
				require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], rule.Alert)
				require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
				require.True(t, strings.HasSuffix(rule.Annotations["runbook_url"], "#"+strings.ToLower(rule.Alert)), rule.Alert)
			}
		}
	}
	require.NotEmpty(t, seen)
}

// TestMonitorsFindWhatTheyScrape: the pods or the Service, and the port by its name.
func TestMonitorsFindWhatTheyScrape(t *testing.T) {
	objects := render(t, form(t, "everything bundled and kept"))
	pods := workloads(t, objects)
	scraped := map[string]bool{}
	for _, m := range all[*monitoringv1.PodMonitor](objects) {
		names := selected(t, pods, &m.Spec.Selector)
		require.Len(t, names, 1, m.Name)
		for _, w := range pods {
			for _, e := range m.Spec.PodMetricsEndpoints {
				if w.name == names[0] {
					_, ok := w.port(*e.Port)
					require.True(t, ok, "%s: %s has no port %s", m.Name, w.name, *e.Port)
					scraped[w.component()+"/"+*e.Port] = true
				}
			}
		}
	}
	for _, m := range all[*monitoringv1.ServiceMonitor](objects) {
		found := 0
		for _, s := range all[*corev1.Service](objects) {
			if !matches(t, &m.Spec.Selector, labels.Set(s.Labels)) {
				continue
			}
			for _, e := range m.Spec.Endpoints {
				for _, p := range s.Spec.Ports {
					if p.Name == e.Port {
						found++
						scraped[s.Labels["app.kubernetes.io/component"]+"/"+e.Port] = true
					}
				}
			}
		}
		require.Equal(t, len(m.Spec.Endpoints), found, m.Name)
	}
	for _, want := range []string{"dataplane/envoy-admin", "dataplane/extproc-admin", "controlplane/admin",
		"jobsvc/admin", "etcd/metrics"} {
		require.True(t, scraped[want], "nothing scrapes %s", want)
	}
}
