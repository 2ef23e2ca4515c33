package seen

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/test/harness"
)

// compareIncidents compares the incident of a provider that has never answered with what was sent to it, and holds
// that what left its normal state has one incident each, on the page, in the API and on the command line.
func (s *scene) compareIncidents(t *testing.T) {
	want := adminapi.IncidentHit{CostUSD: "0", Organizations: []string{}, Keys: []string{}, Models: []string{},
		Batches: []string{}}
	cost := int64(0)
	for _, a := range s.asks {
		if a.last().provider != "broken" || !a.failed() || a.refuse != "" {
			continue
		}
		want.Requests, cost = want.Requests+1, cost+a.cost()
		if o := a.client.organization; o != "" && !slices.Contains(want.Organizations, o) {
			want.Organizations = append(want.Organizations, o)
		}
	}
	want.CostUSD = usage.Nano(cost).String()
	var broken adminapi.Incident
	harness.Eventually(t, "the incidents", func() error {
		open, err := s.admin.Incidents(t.Context())
		if err != nil {
			return err
		}
		needs, err := s.admin.Attention(t.Context())
		if err != nil {
			return err
		}
		for _, a := range needs.Items {
			of := 0
			for _, i := range open.Items {
				if i.Subject == a.Subject {
					of++
				}
			}
			if a.Subject != "" && of != 1 {
				return fmt.Errorf("%d incidents of %s", of, a.Subject)
			}
		}
		i := slices.IndexFunc(open.Items, func(i adminapi.Incident) bool { return i.Subject == "provider/broken" })
		if i < 0 {
			return errors.New("no incident of broken")
		}
		if broken = open.Items[i]; broken.Hit.Requests != want.Requests {
			return fmt.Errorf("%d requests were hit, not %d", broken.Hit.Requests, want.Requests)
		}
		return nil
	})
	s.vendors.mu.Lock()
	first := s.vendors.first["broken"]
	s.vendors.mu.Unlock()
	require.WithinDuration(t, first, broken.Since, harness.Clocks, "the first bad event")
	require.Equal(t, want.CostUSD, broken.Hit.CostUSD)
	require.ElementsMatch(t, want.Organizations, broken.Hit.Organizations)
	require.Contains(t, broken.Why, "broken fails since "+broken.Since.UTC().Format(time.TimeOnly)+" UTC: ")
	require.Contains(t, broken.Gateway, "It falls back to beta for chain.")
	require.Contains(t, broken.Gateway, "No other provider serves broken.")
	require.Equal(t, "Provider broken", broken.Change.Kind+" "+broken.Change.Name)
	require.Equal(t, "root", broken.Change.Actor)
	require.Len(t, broken.Transitions, 1)

	out, _ := harness.Command(t, "", "incidents", "show", broken.ID, "--data", s.Dir, "-o", "json")
	var shown adminapi.Incident
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&shown), out)
	require.Equal(t, broken.Since, shown.Since)
}
