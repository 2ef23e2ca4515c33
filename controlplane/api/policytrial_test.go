package api_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// pastRequests are n requests for a model, the newest of which is the last.
func pastRequests(prefix, key, model string, n int, begun time.Time) []*ledgerv1.Record {
	all := make([]*ledgerv1.Record, n)
	for i := range all {
		at := timestamppb.New(begun.Add(time.Duration(i) * time.Millisecond))
		all[i] = &ledgerv1.Record{Id: prefix + strconv.Itoa(i), Start: at, End: at, Key: key, User: "ann",
			Operation: "chat/completions", Model: model, Attempts: 1, Status: 200, Outcome: "finished"}
	}
	return all
}

func TestPoliciesAreTriedOnPastRequests(t *testing.T) {
	b := newBench(t)
	l := withLedger(t, b)
	made, err := b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "ci"})
	require.NoError(t, err)
	b.plane.keys = func() (int64, map[string]configv1.Object) {
		return 1, map[string]configv1.Object{made.ID: &configv1.Key{Name: made.ID, DisplayName: "ci"}}
	}
	hour := time.Now().Add(-time.Hour)
	records := pastRequests("a", made.ID, "large", 700, hour)
	records = append(records, pastRequests("b", "key_gone", "large", 3, hour)...)
	records = append(records, pastRequests("c", made.ID, "small", 100, hour)...)
	records = append(records, pastRequests("t", made.ID, "tiny", 7, hour)...)
	records = append(records, pastRequests("old", made.ID, "large", 9, time.Now().Add(-48*time.Hour))...)
	records[5].Status, records[5].Outcome = 502, "failed"
	for _, undecided := range []*ledgerv1.Record{{Id: "u1", Key: made.ID, Operation: "models"}, {Id: "u2",
		Model: "large"},
		{Id: "u3", Key: made.ID, Model: "large", Operation: "batch", Requests: 50, Batch: true}} {
		undecided.Start = timestamppb.New(hour)
		records = append(records, undecided)
	}
	require.NoError(t, l.Record(t.Context(), records))

	p := &configv1.Policy{Name: "office", Rules: []*configv1.PolicyRule{
		{Name: "seen", Deny: `model == "small"`, Observe: true}, {Name: "tools", Deny: `model == "small" && size > 1000`},
		{Name: "named", Deny: `key.name == "nobody"`}, {Name: "large", Deny: `model == "large" && user == "ann"`},
		{Name: "wrong", Deny: `model == "small" && key["missing"] == "x"`, Observe: true},
		{Name: "cheap", When: `user == "ann" && model == "tiny"`, UseModel: "small"},
		{Name: "cheaper", When: `model == "tiny"`, UseModel: "other"}}}
	got, err := b.client.TestPolicies(t.Context(), []*configv1.Policy{p}, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{810, 703, 702, 100, 7},
		[]int64{got.Requests, got.Refused, got.Served, got.Unknown, got.Chosen},
		"over several pages")
	require.Nil(t, got.JudgedFrom)
	require.WithinDuration(t, time.Now().Add(-24*time.Hour), got.Start, time.Minute)
	require.Equal(t, []adminapi.PolicyTrialRule{
		{Rule: "office/seen", Observe: true, Refused: 100, Examples: []string{"c99", "c98", "c97", "c96", "c95"}},
		{Rule: "office/tools", Unknown: 100, Missing: []string{"size"}, Examples: []string{}},
		{Rule: "office/named", Unknown: 3, Missing: []string{"key.name"}, Examples: []string{}},
		{Rule: "office/large", Refused: 703, Examples: []string{"a699", "a698", "a697", "a696", "a695"}},
		{Rule: "office/wrong", Observe: true, Refused: 100, Failed: 100, Examples: []string{"c99", "c98", "c97", "c96",
			"c95"}},
		{Rule: "office/cheap", UseModel: "small", Chosen: 7, Examples: []string{"t6", "t5", "t4", "t3", "t2"}},
		{Rule: "office/cheaper", UseModel: "other", Examples: []string{}},
	}, got.Rules)
	require.Equal(t, []adminapi.PolicyTrialCount{{Name: made.ID, DisplayName: "ci", Refused: 700},
		{Name: "key_gone", Refused: 3}}, got.Keys)
	require.Equal(t, []adminapi.PolicyTrialCount{{Name: "large", Refused: 703}}, got.Models)

	got, err = b.client.TestPolicies(t.Context(), []*configv1.Policy{p}, map[string]string{"model": "small"})
	require.NoError(t, err)
	require.Equal(t, []int64{100, 0, 100}, []int64{got.Requests, got.Refused, got.Unknown})

	_, err = b.client.TestPolicies(t.Context(), nil, nil)
	require.ErrorContains(t, err, "There is no policy to try")
	_, err = b.client.Apply(t.Context(), []configv1.Object{p, &configv1.Policy{Name: "off", Disabled: true,
		Rules: []*configv1.PolicyRule{{Name: "r", Deny: "true"}}}}, false)
	require.NoError(t, err)
	got, err = b.client.TestPolicies(t.Context(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"office"}, got.Policies)
	require.EqualValues(t, 703, got.Refused)
}

func TestWrongPoliciesAreNotTried(t *testing.T) {
	b := newBench(t)
	require.Equal(t, 503, b.do(t, "POST", "/admin/v1/policies/test", "[]").status, "there is no ledger")
	b = newBench(t)
	withLedger(t, b)
	for body, says := range map[string]string{
		`[{"kind":"Policy","name":"p","rules":[{"name":"r","deny":"models"}]}]`: "undeclared reference",
		`[{"kind":"Organization","name":"acme"}]`:                               "Only policies can be tried",
		`{`: "",
	} {
		a := b.do(t, "POST", "/admin/v1/policies/test", body)
		require.Equal(t, 400, a.status, body)
		require.Contains(t, a.body, says)
	}
	require.Equal(t, 400, b.do(t, "POST", "/admin/v1/policies/test?color=red", `[{"kind":"Policy","name":"p","rules":[{"name":"r","deny":"true"}]}]`).status)
}
