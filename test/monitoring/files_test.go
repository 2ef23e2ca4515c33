package monitoring_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/modelgate/modelgate/internal/testenv"
)

// A dashboard is what the tests read of one.
type dashboard struct {
	UID        string          `json:"uid"`
	Title      string          `json:"title"`
	ID         json.RawMessage `json:"id"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Query    string `json:"query"`
	AllValue string `json:"allValue"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Grid        struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		RefID string `json:"refId"`
		Expr  string `json:"expr"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

func dashboards(t testing.TB) (all []dashboard) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "charts", "modelgate", "dashboards", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(text, &d), file)
		require.Equal(t, strings.TrimSuffix(filepath.Base(file), ".json"), d.UID,
			"the address of a dashboard is its file's name")
		all = append(all, d)
	}
	return all
}

// An alert is a rule of the chart.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alerts returns the rules of the chart by name.
func alerts(t testing.TB) map[string]alert {
	t.Helper()
	text, err := os.ReadFile(rulesFile(t))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	all := map[string]alert{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			require.NotContains(t, all, r.Alert)
			all[r.Alert] = r
		}
	}
	require.NotEmpty(t, all)
	return all
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	reference   = regexp.MustCompile(`\$\w+`)
)

// interpolate puts the values of variables into a query as Grafana does, for a scrape every half second.
func interpolate(t testing.TB, query string, values map[string]string) string {
	t.Helper()
	return reference.ReplaceAllStringFunc(query, func(name string) string {
		switch name = name[1:]; name {
		case "__rate_interval":
			return "5s"
		case "__range":
			return "60s"
		}
		value, ok := values[name]
		require.True(t, ok, "nothing is called $%s in %s", name, query)
		return value
	})
}

// oneOf is a regular expression of some values as Grafana writes them.
func oneOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strings.ReplaceAll(regexp.QuoteMeta(v), `\`, `\\`)
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return "(" + strings.Join(quoted, "|") + ")"
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`) // may hold braces
	notNames = regexp.MustCompile(`\{[^}]*\}|\b(?:by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)`)
	names    = regexp.MustCompile(`\b(?:modelgate|gen_ai|envoy|go|process)_\w+|\bALERTS\b`)
)

// metricNames returns the names of the metrics that a query asks for.
func metricNames(query string) []string {
	found := names.FindAllString(notNames.ReplaceAllString(quoted.ReplaceAllString(query, ""), " "), -1)
	slices.Sort(found)
	return slices.Compact(found)
}
