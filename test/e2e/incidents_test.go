package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/types/known/durationpb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A frost is a vendor that refuses the credential of one of its tenants, and a receiver of alerts.
type frost struct {
	*httptest.Server
	mu          sync.Mutex // guards what follows
	first, last time.Time  // of those that it has refused
	told        map[string]string
	hang        chan struct{} // closed once a message has come that gets no answer; nil: all get one
}

func newFrost(t *testing.T) *frost {
	f := &frost{told: map[string]string{}, hang: make(chan struct{})}
	serves := fakeprovider.Handler()
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/alerts":
			f.take(w, r)
		case r.Header.Get("X-Tenant") == "wrong" && r.Method == http.MethodPost:
			f.refuse(w)
		default:
			serves.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *frost) refuse(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = time.Now()
	if f.first.IsZero() {
		f.first = f.last
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"error":{"message":"no","code":"invalid_api_key"}}`)
}

// take takes a message of an alert, and does not answer the first.
func (f *frost) take(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	if hang := f.hang; hang != nil {
		close(hang)
		f.hang = nil
		f.mu.Unlock()
		<-r.Context().Done()
		return
	}
	f.told[r.Header.Get("webhook-id")] = gjson.GetBytes(body, "type").String() + " " +
		gjson.GetBytes(body, "data.incident").String()
	f.mu.Unlock()
}

func (f *frost) messages() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.told {
		all = append(all, m)
	}
	slices.Sort(all)
	return all
}

// TestAnIncidentFromItsFirstSecondToItsUndo: a change breaks a provider. The gateway says since when, for whom, by
// whom and how to undo that, also if it is killed between the transition and its message. It closes the incident once
// the change is undone by the command that it names.
func TestAnIncidentFromItsFirstSecondToItsUndo(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, dir := newFrost(t), t.TempDir()
	flags := []string{"--alert-network", "127.0.0.0/8"}
	g := startRun(t, dir, flags...)
	provider := func(tenant string) *configv1.Provider {
		return &configv1.Provider{Name: "frost", Vendor: "openai", Endpoint: f.URL, Models: []string{"echo"},
			Headers: map[string]string{"x-tenant": tenant}}
	}
	g.Apply(t, provider("right"),
		&configv1.AlertReceiver{Name: "ops", Webhook: &configv1.AlertWebhook{Url: f.URL + "/alerts"},
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{
				Value: "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}}},
		&configv1.AlertRule{Name: "errors", Condition: configv1.AlertCondition_INCIDENT, Severity: "error",
			For: durationpb.New(0), ClearAfter: durationpb.New(0), Receivers: []string{"ops"}})
	_, key := g.CreateKey(t, "acme", "")
	ask := func(status int) {
		t.Helper()
		c := g.AsCases()
		c.Key = key
		a := c.Chat(t, `{"model":"frost/echo","messages":[{"role":"user","content":"hi"}]}`)
		require.Equal(t, status, a.Status, "%s", a.Body)
	}
	harness.Eventually(t, "the provider", func() error { return g.has("frost/echo") })
	ask(http.StatusOK)
	g.Apply(t, provider("wrong"))
	for range 6 {
		ask(http.StatusBadGateway)
	}
	f.mu.Lock()
	hang, first := f.hang, f.first
	f.mu.Unlock()

	incident := func() (adminapi.Incident, error) {
		all, err := adminapi.NewClient(g.Admin, g.File(t, "admin-token"), g.Client).Incidents(t.Context(), adminapi.Closed)
		if err != nil {
			return adminapi.Incident{}, err
		}
		all.Items = slices.DeleteFunc(all.Items, func(i adminapi.Incident) bool { return i.Subject != "provider/frost" })
		if len(all.Items) != 1 {
			return adminapi.Incident{}, fmt.Errorf("%d incidents", len(all.Items))
		}
		return all.Items[0], nil
	}
	select {
	case <-hang:
	case <-time.After(2 * time.Minute):
		t.Fatal("nobody was told")
	}
	g.Kill()
	g = startRun(t, dir, flags...)
	harness.Within(t, 2*time.Minute, "the message once more", func() error {
		if len(f.messages()) == 0 {
			return errors.New("it has not come")
		}
		return nil
	})
	i, err := incident()
	require.NoError(t, err)
	require.Equal(t, []string{adminapi.IncidentOpen, adminapi.AttentionCredentialRejected}, []string{i.State, i.Kind})
	require.WithinDuration(t, first, i.Since, harness.Clocks)
	require.Equal(t, []any{int64(6), []string{"acme"}}, []any{i.Hit.Requests, i.Hit.Organizations})
	require.Equal(t, []string{"root", "updated", "Provider", "frost"},
		[]string{i.Change.Actor, i.Change.Action, i.Change.Kind, i.Change.Name})
	require.Len(t, i.Transitions, 1)
	require.Equal(t, []string{adminapi.AlertFired + " " + i.ID}, f.messages())

	undo := strings.Fields(strings.TrimPrefix(i.Change.Command, "modelgate "))
	harness.Must(t, "", append(undo, "--data", dir)...)
	var asked time.Time
	harness.Within(t, 4*time.Minute, "its end", func() error {
		// What is served in the minute of a failure does not end it.
		if minute := time.Now().Truncate(time.Minute); minute != asked {
			for range 4 {
				ask(http.StatusOK)
			}
			asked = minute
		}
		i, err = incident()
		if err != nil || i.State != adminapi.IncidentClosed {
			return cmp.Or(err, errors.New("it is open"))
		}
		return nil
	})
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	require.WithinDuration(t, last, *i.Until, harness.Clocks)
	require.Len(t, i.Transitions, 2)
	harness.Within(t, 2*time.Minute, "the message of its end", func() error {
		if len(f.messages()) < 2 {
			return errors.New("it has not come")
		}
		return nil
	})
	require.Equal(t, []string{adminapi.AlertCleared + " " + i.ID, adminapi.AlertFired + " " + i.ID}, f.messages())
}
