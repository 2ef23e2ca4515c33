// Package monitoring proves the dashboards and alert rules of the chart on a real Prometheus, which scrapes the
// processes of a real gateway while it is used: every query of every panel finds something, every rule can be
// evaluated, and what goes wrong is told.
//
// A query of a metric that does not exist is no error but an empty answer, and so is an alert that can
// never fire. Whether the names are right shows only where there is traffic of every kind.
package monitoring_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestARealPrometheusOverARealGateway(t *testing.T) {
	binary := tool(t, "prometheus")
	s := startSystem(t)
	p := startPrometheus(t, binary, s)
	stop := s.begin(t)
	t.Run("every panel of every dashboard shows something", func(t *testing.T) {
		for _, d := range dashboards(t) {
			p.show(t, d)
		}
	})
	t.Run("every rule is evaluated", p.evaluatesEveryRule)
	t.Run("every command of the runbooks works", s.runsRunbooks)
	t.Run("only what the traffic provokes is told", p.tellsNothingElse)
	stop()
	t.Run("what goes wrong is told", func(t *testing.T) { s.breakThings(t, p) })
	t.Run("every name is that of a metric", p.knowsEveryName)
}

// show evaluates the queries of a dashboard with everything selected: as All, and one by one.
func (p *prometheus) show(t *testing.T, d dashboard) {
	selected := p.selections(t, d)
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			t.Run(d.Title+"/"+panel.Title+" "+target.RefID, func(t *testing.T) {
				for _, values := range selected {
					query := interpolate(t, target.Expr, values)
					harness.Eventually(t, query, func() error { return p.finds(query) })
				}
			})
		}
	}
}

// selections are the values of a dashboard's variables as Grafana puts them into queries, for All and for all values
// by name.
func (p *prometheus) selections(t *testing.T, d dashboard) []map[string]string {
	all, each := map[string]string{}, map[string]string{}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		match := labelValues.FindStringSubmatch(v.Query)
		require.NotNil(t, match, "variable %s: %s", v.Name, v.Query)
		var found []string
		harness.Eventually(t, "values of the variable "+v.Name, func() (err error) {
			found, err = p.labelValues(match[2], interpolate(t, match[1], all))
			if err == nil && len(found) == 0 {
				err = fmt.Errorf("%s has no values", v.Query)
			}
			return err
		})
		all[v.Name], each[v.Name] = v.AllValue, oneOf(found)
	}
	return []map[string]string{all, each}
}

// evaluatesEveryRule asks Prometheus how it got on with the rules that it has loaded.
func (p *prometheus) evaluatesEveryRule(t *testing.T) {
	harness.Eventually(t, "every rule is evaluated", func() error {
		loaded, err := p.rules()
		if err != nil {
			return err
		}
		var names []string
		for _, r := range loaded {
			if r.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
			names = append(names, r.Name)
		}
		if want := slices.Sorted(maps.Keys(alerts(t))); !slices.Equal(want, slices.Sorted(slices.Values(names))) {
			return fmt.Errorf("loaded are %v, not %v", names, want)
		}
		return nil
	})
}

// tellsNothingElse holds that a gateway that works raises no alert, but for the providers that fail on purpose. Most
// alerts wait before they fire, so that what counts is what would.
func (p *prometheus) tellsNothingElse(t *testing.T) {
	told, err := p.alerts()
	require.NoError(t, err)
	for _, name := range told {
		require.Contains(t, []string{"ModelgateProviderFailing", "ModelgateErrorBudgetFast", "ModelgateErrorBudgetSlow",
			"ModelgateProviderCooling"}, name)
	}
	require.Contains(t, told, "ModelgateProviderFailing")
}

// knowsEveryName holds that nothing is asked for that nobody shows.
func (p *prometheus) knowsEveryName(t *testing.T) {
	known, err := p.labelValues("__name__", "")
	require.NoError(t, err)
	check := func(where, query string) {
		names := metricNames(query)
		require.NotEmpty(t, names, "%s: %s", where, query)
		for _, name := range names {
			require.Contains(t, known, name, "%s: %s", where, query)
		}
	}
	for name, a := range alerts(t) {
		check(name, a.Expr)
	}
	for _, d := range dashboards(t) {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				check(d.Title+"/"+panel.Title, target.Expr)
			}
		}
	}
}

// runsRunbooks runs what docs/operate.md has people run in a control plane's pod.
func (s *system) runsRunbooks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "operate.md"))
	require.NoError(t, err)
	commands := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^kubectl .* -- /modelgate (.*)$`).FindAllStringSubmatch(string(text),
		-1) {
		commands[found[1]] = true
	}
	require.NotEmpty(t, commands)
	for command := range commands {
		command, _, mayFail := strings.Cut(command, " || true")
		out, err := harness.Command(t, "", append(strings.Fields(command), s.at()...)...)
		if exit := new(exec.ExitError); mayFail && errors.As(err, &exit) && exit.ExitCode() == 1 {
			err = nil // it has found something
		}
		require.NoError(t, err, "%s: %s", command, out)
		require.NotEmpty(t, out, command)
	}
}

// windows are those of rates: in a test they are as short as what goes wrong.
var windows = regexp.MustCompile(`\[\d+[mh]\]`)

// wouldFire waits until the expression of an alert finds something.
func (p *prometheus) wouldFire(t *testing.T, name string) {
	t.Helper()
	query := windows.ReplaceAllString(alerts(t)[name].Expr, "[5s]")
	harness.Eventually(t, name, func() error { return p.finds(query) })
}

// breakThings takes away one thing after the other that the gateway needs, and waits until that is told.
func (s *system) breakThings(t *testing.T, p *prometheus) {
	stop := s.beginCareless(t)
	defer stop()
	p.wouldFire(t, "ModelgateProviderFailing")

	s.redis.Stop()
	p.wouldFire(t, "ModelgateLimitsDegraded")
	s.redis.Restart(t)

	etcd := s.etcd.Client(t)
	_, err := etcd.Put(t.Context(), "/modelgate/v1/providers/good", "no JSON {")
	require.NoError(t, err)
	p.wouldFire(t, "ModelgateConfigErrors")

	_, err = etcd.Put(t.Context(), configstore.RestoringKey, "as while a backup is being restored")
	require.NoError(t, err)
	p.wouldFire(t, "ModelgateConfigNotFollowed")
	_, err = etcd.Delete(t.Context(), configstore.RestoringKey)
	require.NoError(t, err)

	s.etcd.Stop()
	p.wouldFire(t, "ModelgateEtcdAway")
	s.etcd.Start(t)

	s.processes["extproc"].Kill()
	p.wouldFire(t, "ModelgateExtProcFailing")
	p.wouldFire(t, "ModelgateNoDataPlane")

	s.processes["controlplane"].Kill()
	p.wouldFire(t, "ModelgateConfigStale")
	p.wouldFire(t, "ModelgateControlPlaneDown")
	require.NoError(t, s.ask(t.Context(), s.Key, "{}", http.StatusServiceUnavailable), "there is no ext_proc service")
}
