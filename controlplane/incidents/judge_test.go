package incidents_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/incidents"
)

// TestACauseHasOneTrouble has for each kind what is judged, and for each cause what only suffers from it.
func TestACauseHasOneTrouble(t *testing.T) {
	since := now.Add(-5 * time.Minute)
	failing := adminapi.ProviderHealth{Provider: "frost", State: adminapi.ProviderFailing, LastError: "401",
		Last15Minutes: adminapi.HealthWindow{Attempts: 50, Failed: 50}}
	rejected := attention.Rejection{Provider: "frost", Times: 50, Last: now}
	traffic := func(model, provider string, requests, failed int64) attention.Traffic {
		return attention.Traffic{Model: model, Provider: provider, Requests: requests, Failed: failed}
	}
	refused := func(key, by, code string, n int64) attention.Refusals {
		return attention.Refusals{Key: key, Name: "of " + key, Known: true, By: by, Code: code, Requests: n}
	}
	batch := func(id string, idle, tried time.Duration) adminapi.RunningBatch {
		b := adminapi.RunningBatch{ID: id, Key: "k1", Model: "smart", Done: 3, Total: 9, Answered: now.Add(-idle)}
		if tried > 0 {
			at := now.Add(-tried)
			b.Met = adminapi.BatchProgress{At: at, Tries: 7, TriedAt: &at, Status: 429, ErrorCode: "rate_limit_exceeded",
				Message: "Slow down."}
		}
		return b
	}
	const perMinute = "key/k1 limit requests per minute"
	for _, c := range []struct {
		name  string
		facts attention.Facts
		want  []string // subjects with their severity, and why
	}{
		{"all is well", attention.Facts{Traffic: []attention.Traffic{traffic("smart", "frost", 100, 49)},
			Refusals: []attention.Refusals{refused("k1", perMinute, "", 19)}}, nil},
		{"a refused credential is why a provider fails",
			attention.Facts{Providers: []adminapi.ProviderHealth{failing}, Rejected: []attention.Rejection{rejected}},
			[]string{"error provider/frost: frost refuses our credential since 11:55:00 UTC: 401 or 403 at 50 of 50 attempts in 15 minutes."}},
		{"a provider has recovered", attention.Facts{Providers: []adminapi.ProviderHealth{failing},
			Rejected: []attention.Rejection{rejected}, Recovered: map[string]bool{"frost": true}}, nil},
		{"a provider that fails is why its models do",
			attention.Facts{Providers: []adminapi.ProviderHealth{failing}, Traffic: []attention.Traffic{
				traffic("smart", "frost", 50, 50), traffic("smart", "", 10, 1), traffic("fast", "frost", 40, 40)}},
			[]string{"error provider/frost: frost fails since 11:55:00 UTC: 50 of 50 attempts in 15 minutes failed, the last with: 401."}},
		{"a model fails at providers that do not",
			attention.Facts{Traffic: []attention.Traffic{traffic("smart", "a", 20, 15),
				traffic("smart", "b", 20, 5)}},
			[]string{"error model/smart: The model smart fails since 11:55:00 UTC: 20 of 40 requests in 15 minutes failed, and not because of one provider."}},
		{"a model fails beside a provider",
			attention.Facts{Providers: []adminapi.ProviderHealth{failing}, Traffic: []attention.Traffic{
				traffic("smart", "frost", 50, 50), traffic("smart", "", 30, 30)}},
			[]string{"error model/smart: The model smart fails since 11:55:00 UTC: 30 of 30 requests in 15 minutes failed, and not because of one provider.",
				"error provider/frost: frost fails since 11:55:00 UTC: 50 of 50 attempts in 15 minutes failed, the last with: 401."}},
		{"a limit refuses two keys", attention.Facts{Refusals: []attention.Refusals{
			refused("k1", "organization/acme limit requests per minute", "", 15),
			refused("k2", "organization/acme limit requests per minute", "", 5)}},
			[]string{"warning limit/organization/acme limit requests per minute: The limit of requests per minute of organization/acme refuses requests since 11:55:00 UTC: 20 in 15 minutes."}},
		{"a budget that is spent is why its key is refused", attention.Facts{
			Budgets: []adminapi.BudgetUse{{Scope: "key/k1", Unit: "day", USD: "1", Spent: "1",
				Resets: now.Add(12 * time.Hour)}},
			Refusals: []attention.Refusals{refused("k1", "budget key/k1 day", "", 400)}},
			[]string{"error budget/key/k1 day: The budget of $1 a day of k1 is spent since 11:55:00 UTC: 100 %. It resets on 2026-05-21 00:00 UTC. Until then requests are refused."}},
		{"a checker is why requests are refused", attention.Facts{
			Unjudged: []attention.Unjudged{{Rule: "harm/violence", Times: 2, Last: now},
				{Rule: "harm/hate", Times: 1, Last: now}},
			Refusals: []attention.Refusals{refused("k1", "guardrail harm/violence", "", 400)}},
			[]string{"error guardrail/harm: The checkers of the rules harm/violence, harm/hate do not answer since 11:55:00 UTC: requests were refused 3 times in 15 minutes. The log of extproc has the cause."}},
		{"a key is refused for two reasons", attention.Facts{Refusals: []attention.Refusals{
			refused("k1", "key/k1 models", "model_not_allowed", 12),
			refused("k1", "key/k1 addresses", "address_not_allowed", 30)}},
			[]string{"warning key/k1: The key of k1 is refused since 11:55:00 UTC: 42 requests in 15 minutes were refused: address_not_allowed, model_not_allowed."}},
		{"a key is refused less often than it is served", attention.Facts{Refusals: []attention.Refusals{
			{Key: "k1", Known: true, Code: "model_not_allowed", Requests: 50, Served: 51}}}, nil},
		{"an unknown key is tried", attention.Facts{Refusals: []attention.Refusals{
			{Key: "9896", Code: "invalid_api_key", Requests: 106}}},
			[]string{"warning key/9896: A key that is not known, which ends with 9896, is used since 11:55:00 UTC: 106 requests in 15 minutes were refused: invalid_api_key."}},
		{"objects with one error", attention.Facts{Objects: []attention.ObjectError{
			{Kind: "Model", Name: "a", Error: "there is no Provider x"},
			{Kind: "Model", Name: "b", Error: "there is no Provider x"},
			{Kind: "Route", Name: "r", Error: "another"}}},
			[]string{"error object/Model/a: Model a, Model b have no effect since 11:55:00 UTC: there is no Provider x",
				"error object/Route/r: Route r has no effect since 11:55:00 UTC: another"}},
		{"processes with one error", attention.Facts{Plane: []adminapi.DataPlaneClient{
			{Role: "envoy", Node: "a", Health: "refused", Error: "bad."},
			{Role: "envoy", Node: "b", Health: "refused", Error: "bad."}}},
			[]string{"error dataplane/envoy/a: envoy a does not use the newest configuration since 11:55:00 UTC: bad."}},
		{"an object that a process refuses", attention.Facts{Plane: []adminapi.DataPlaneClient{
			{Role: "envoy", Node: "a", Health: "refused", Error: "bad."}, {Role: "envoy", Node: "b", Health: "behind"}},
			Objects: []attention.ObjectError{{Kind: "Certificate", Name: "c", Error: "refused by the data plane: bad."}}},
			[]string{"error object/Certificate/c: Certificate c has no effect since 11:55:00 UTC: refused by the data plane: bad.",
				"warning dataplane/envoy/b: envoy b does not use the newest configuration since 11:55:00 UTC"}},
		{"certificates", attention.Facts{Certificates: map[string]time.Time{"old": now, "soon": now.Add(14 * 24 * time.Hour),
			"later": now.Add(14*24*time.Hour + time.Second), "none": {}}},
			[]string{"error certificate/old: The certificate old has expired since 11:55:00 UTC: clients refuse to connect.",
				"warning certificate/soon: The certificate soon expires soon since 11:55:00 UTC: at 2026-06-03 12:00 UTC."}},
		{"no job service", attention.Facts{NoJobs: true},
			[]string{"error jobs: No job service is connected since 11:55:00 UTC: files, batches and fine-tuning are answered with errors."}},
		{"batches that advance, or whose requests take long", attention.Facts{Batches: []adminapi.RunningBatch{
			batch("young", 9*time.Minute+59*time.Second, 9*time.Minute), batch("slow", 59*time.Minute, 0)}}, nil},
		{"batches that do not", attention.Facts{Batches: []adminapi.RunningBatch{
			batch("tried", 10*time.Minute, 9*time.Minute), batch("idle", time.Hour, 0)}},
			[]string{"warning batch/idle: The batch idle does not advance since 11:55:00 UTC: 3 of 9 requests have an answer; no worker of the job service has tried a request.",
				"warning batch/tried: The batch tried does not advance since 11:55:00 UTC: 3 of 9 requests have an answer; 7 tries failed, the last with 429 rate_limit_exceeded: Slow down."}},
		{"a batch does not advance for a cause of its own", attention.Facts{
			Batches: []adminapi.RunningBatch{batch("b", time.Hour, time.Minute)}, Providers: []adminapi.ProviderHealth{failing},
			Traffic: []attention.Traffic{traffic("smart", "frost", 30, 30)}},
			[]string{"error provider/frost: frost fails since 11:55:00 UTC: 50 of 50 attempts in 15 minutes failed, the last with: 401."}},
		{"a limit is why a batch does not advance", attention.Facts{
			Batches:  []adminapi.RunningBatch{batch("b", time.Hour, time.Minute)},
			Refusals: []attention.Refusals{refused("k1", perMinute, "", 20)}},
			[]string{"warning limit/key/k1 limit requests per minute: The limit of requests per minute of key/k1 refuses requests since 11:55:00 UTC: 20 in 15 minutes."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.Now = now
			var got []string
			for _, found := range incidents.Judge(c.facts) {
				require.NotEmpty(t, found.Kind)
				require.NotEmpty(t, found.Message)
				require.NotEmpty(t, found.Path)
				got = append(got, found.Severity+" "+found.Subject+": "+found.Why(since, now))
			}
			require.Equal(t, c.want, got)
		})
	}
}
