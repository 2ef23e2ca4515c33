package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/test/harness"
)

const (
	// watched is how much later than it happens the gateway may see what nobody reports: it looks every 15 s.
	watched = 17 * time.Second
	// looks is how often a test looks whether something has changed.
	looks = 300 * time.Millisecond
	// opens and closes are how long that may take.
	opens, closes = 60 * time.Second, 110 * time.Second
)

// An illness is a cause of an incident.
type illness struct {
	kind, subject string
	// first and last are when the first and the last bad event were. No last: it goes on until it ends.
	first, last time.Time
	// slack is how much later the gateway may see the first. 0: what it says has the second.
	slack  time.Duration
	hit    int64  // requests
	lasts  bool   // until it is ended, not until its last request
	why    string // that it begins with
	change string // actor, action and object; empty: not of interest
	// undo is set if the change can be undone by the command that the incident names.
	undo bool
	end  func()    // ends the cause; nil: the undo does, or it ends by itself
	over time.Time // when it was over, if nothing is to be done for that
	// stays is why it does not end while the test runs.
	stays string
}

// A ward has what is ill in a gateway.
type ward struct {
	t    *testing.T
	at   []string // flags of commands
	list func(closed ...adminapi.Flag) ([]adminapi.Incident, error)
	all  []illness
	open map[string]adminapi.Incident // by subject
}

func (w *ward) ill(i illness) { w.all = append(w.all, i) }

// find returns the incidents by subject, which must be one for each illness, and no other.
func (w *ward) find() (map[string]adminapi.Incident, error) {
	all, err := w.list(adminapi.Closed)
	if err != nil {
		return nil, err
	}
	found := map[string]adminapi.Incident{}
	for _, i := range all {
		require.NotContains(w.t, found, i.Subject, "two for one cause")
		require.True(w.t, slices.ContainsFunc(w.all, func(ill illness) bool { return ill.subject == i.Subject }),
			"an incident of its own of what only suffers: %s: %s", i.Subject, i.Why)
		found[i.Subject] = i
	}
	for _, ill := range w.all {
		if _, ok := found[ill.subject]; !ok {
			return nil, fmt.Errorf("%s has no incident", ill.subject)
		}
	}
	return found, nil
}

// await waits until each illness has its incident, and compares what is said of it, in the API and by the commands.
func (w *ward) await() {
	t := w.t
	look := time.NewTicker(looks)
	defer look.Stop()
	harness.Within(t, opens, "an incident of each", func() (err error) {
		<-look.C
		w.open, err = w.find()
		for _, ill := range w.all {
			if i := w.open[ill.subject]; err == nil && ill.hit > 0 && i.Hit.Requests != ill.hit {
				err = fmt.Errorf("%s hit %d requests, not %d", ill.subject, i.Hit.Requests, ill.hit)
			}
		}
		return err
	})
	listed, _ := harness.Command(t, "", append([]string{"incidents"}, w.at...)...)
	for _, ill := range w.all {
		t.Run(ill.subject, func(t *testing.T) {
			i := w.open[ill.subject]
			t.Logf("%s (%s after its cause), %+v %+v %q", i.Why, i.Since.Sub(ill.first), i.Hit, i.Change, i.Gateway)
			require.Equal(t, []string{adminapi.IncidentOpen, ill.kind}, []string{i.State, i.Kind})
			require.WithinRange(t, i.Since, ill.first.Add(-harness.Clocks),
				cmp.Or(ill.last, ill.first).Add(harness.Clocks+ill.slack))
			if ill.slack == 0 && ill.hit > 0 {
				require.WithinDuration(t, ill.first, i.Since, harness.Clocks)
			}
			require.Contains(t, i.Why, ill.why+i.Since.UTC().Format(time.TimeOnly)+" UTC")
			require.Len(t, i.Transitions, 1)
			if ill.change != "" {
				require.NotNil(t, i.Change)
				require.Equal(t, ill.change, strings.Join([]string{i.Change.Actor, i.Change.Action, i.Change.Kind,
					i.Change.Name}, " "))
				require.Equal(t, ill.undo, i.Change.Command != "", "%+v", i.Change)
			}
			require.Contains(t, listed, i.ID)
			shown := harness.Must(t, "", append([]string{"incidents", "show", i.ID}, w.at...)...)
			require.Contains(t, shown, i.Since.UTC().Format(time.RFC3339))
			if ill.undo {
				require.Contains(t, shown, i.Change.Command)
			}
			var same adminapi.Incident
			require.NoError(t, json.Unmarshal([]byte(harness.Must(t, "", append([]string{"incidents", "show", i.ID, "-o",
				"json"}, w.at...)...)), &same))
			require.Equal(t, i.Since, same.Since)
		})
	}
}

// kinds returns the kinds of the illnesses, each once.
func (w *ward) kinds() []string {
	var all []string
	for _, ill := range w.all {
		all = append(all, ill.kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// end ends the illnesses, and waits until each incident has closed.
func (w *ward) end() {
	t := w.t
	ended := map[string]time.Time{}
	for _, ill := range w.all {
		if ill.undo {
			undo := strings.Fields(strings.TrimPrefix(w.open[ill.subject].Change.Command, "modelgate "))
			harness.Must(t, "", append(undo, w.at...)...)
		}
		if ill.end != nil {
			ill.end()
		}
		ended[ill.subject] = ill.over
		if ill.over.IsZero() {
			ended[ill.subject] = time.Now()
		}
	}
	look := time.NewTicker(looks)
	defer look.Stop()
	harness.Within(t, closes, "the end of each", func() (err error) {
		<-look.C
		if w.open, err = w.find(); err != nil {
			return err
		}
		for _, ill := range w.all {
			if i := w.open[ill.subject]; ill.stays == "" && i.State != adminapi.IncidentClosed {
				return fmt.Errorf("%s is open: %s", i.Subject, i.Why)
			}
		}
		return nil
	})
	for _, ill := range w.all {
		t.Run("the end of "+ill.subject, func(t *testing.T) {
			i := w.open[ill.subject]
			if ill.stays != "" {
				require.Equal(t, adminapi.IncidentOpen, i.State, ill.stays)
				return
			}
			t.Logf("until %s, %s after its end, %s after its last", i.Until, i.Until.Sub(ended[ill.subject]), i.Until.Sub(ill.last))
			require.Equal(t, adminapi.IncidentClosed, i.Transitions[len(i.Transitions)-1].State)
			require.Len(t, i.Transitions, 2)
			if ill.hit > 0 && !ill.lasts {
				require.WithinDuration(t, ill.last, *i.Until, harness.Clocks)
			} else {
				require.WithinRange(t, *i.Until, ended[ill.subject].Add(-time.Second), ended[ill.subject].Add(watched))
			}
		})
	}
}
