package ledger_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/guard"
)

// found is a record with findings, some minutes before noon.
func found(id string, minutes int, guards []string, change ...func(*ledgerv1.Record)) *ledgerv1.Record {
	return rec(id, append([]func(*ledgerv1.Record){func(r *ledgerv1.Record) {
		at := noon.Add(-time.Duration(minutes) * time.Minute)
		r.Start, r.End = timestamppb.New(at), timestamppb.New(at)
		r.Details = &ledgerv1.Details{Guards: guards}
	}}, change...)...)
}

func refusedBy(by string, code openai.Code) func(*ledgerv1.Record) {
	return func(r *ledgerv1.Record) {
		r.RefusedBy, r.ErrorCode, r.Outcome, r.Status = by, string(code), "rejected", 400
	}
}

func sum(kind, rule, action string, requests, matches int64, last time.Time, examples ...string) adminapi.Finding {
	return adminapi.Finding{Kind: kind, Rule: rule, Action: action, Requests: requests, Matches: matches, Last: last,
		Examples: examples}
}

func TestFindingsAreSummedUpByRuleAndAction(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		other := func(r *ledgerv1.Record) { r.Organization, r.Key = "umbrella", "key_2" }
		keep(t, l, rec("none"),
			found("a", 1, guard.Findings{ // as a request's record has them
				{Rule: "personal/contact", Mode: "mask", Side: guard.SideAnswer}:                1,
				{Rule: "personal/contact", Mode: "mask", Side: guard.SideRequest}:               2,
				{Rule: "policy office/tools", Mode: guard.ModeObserve, Side: guard.SideRequest}: 1}.Texts()),
			found("b", 2, []string{"block personal/secrets in the request: 3"},
				refusedBy("guardrail personal/secrets", openai.CodeContentBlocked)),
			found("c", 90, []string{"mask personal/contact in the request: 4"}, other),
			found("d", 91, nil, refusedBy("policy office/tools", openai.CodePolicyDenied), other),
			found("e", 92, []string{"failed harm/violence in the request: 1"},
				refusedBy("guardrail harm/violence", openai.CodeCheckerUnavailable)),
			found("f", 93, []string{"observe office/tools in the request: 1", "nonsense", "mask x in the request: many"}),
			// A client's text is no finding, and neither is another limit.
			found("g", 94, nil, func(r *ledgerv1.Record) { r.Details.Dropped = `"guards":["mask personal/contact in the request: 9"]` }),
			found("h", 95, nil, refusedBy("key/key_1 limit requests per minute", "")),
			found("old", 30*60, []string{"mask personal/contact in the request: 1"}))
		hour := noon.Truncate(time.Hour)
		at := func(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }
		all, err := l.Findings(t.Context(), asked())
		require.NoError(t, err)
		require.Nil(t, all.CountedFrom)
		require.Equal(t, []adminapi.Finding{
			sum("guardrail", "personal/contact", "mask", 2, 7, at(1), "a", "c"),
			sum("guardrail", "harm/violence", "failed", 1, 1, at(92), "e"),
			sum("guardrail", "office/tools", "observe", 1, 1, at(93), "f"),
			sum("guardrail", "personal/secrets", "block", 1, 3, at(2), "b"),
			sum("policy", "office/tools", "block", 1, 1, at(91), "d"),
			sum("policy", "office/tools", "observe", 1, 1, at(1), "a"),
		}, all.Items)
		require.Equal(t, []adminapi.FindingBucket{
			{Start: hour.Add(-2 * time.Hour), Observe: 1, Block: 1, Failed: 1},
			{Start: hour.Add(-time.Hour), Mask: 1},
			{Start: hour, Observe: 1, Mask: 1, Block: 1},
		}, all.Buckets)
		for _, c := range []struct {
			filters  []string
			rules    int
			requests string // of the request log
		}{
			{[]string{"rule", "personal/contact"}, 1, "a c old"},
			{[]string{"rule", "guardrail personal/contact"}, 1, "a c old"},
			{[]string{"rule", "personal"}, 2, "a b c old"},
			{[]string{"rule", "person"}, 0, ""},
			{[]string{"rule", "policy office"}, 2, "a d"},
			{[]string{"rule", "policy office/tools"}, 2, "a d"},
			{[]string{"rule", "office/tools"}, 1, "f"},
			{[]string{"rule", "harm/violence"}, 1, "e"},
			{[]string{"rule", `%`}, 0, ""},
			{[]string{"rule", "personal/contact", "organization", "umbrella"}, 1, "c"},
			{[]string{"organization", "umbrella"}, 2, ""},
			{[]string{"organization", "umbrella", "project", "web", "key", "key_2", "model", "gpt"}, 2, ""},
			{[]string{"key", "key_1", "action", "mask"}, 1, ""},
			{[]string{"action", "block"}, 2, ""},
			{[]string{"width", "86400", "start", strconv.FormatInt(at(91).Unix(), 10), "end",
				strconv.FormatInt(at(1).Unix(), 10)}, 3, ""},
			{[]string{"start", strconv.FormatInt(noon.Unix()-40*3600, 10), "width", "86400"}, 6, ""},
		} {
			sums, err := l.Findings(t.Context(), asked(c.filters...))
			require.NoError(t, err)
			require.Len(t, sums.Items, c.rules, c.filters)
			if c.requests != "" {
				ids := ""
				page, err := l.Exchanges(t.Context(), asked(c.filters...))
				require.NoError(t, err)
				for i, e := range page.Items {
					if i > 0 {
						ids += " "
					}
					ids += e.ID
				}
				require.Equal(t, c.requests, ids, c.filters)
			}
		}
		for _, bad := range [][]string{{"action", "no"}, {"width", "61"}, {"color", "red"}} {
			_, err := l.Findings(t.Context(), asked(bad...))
			require.Error(t, err, bad)
		}
	})
}

func TestTheLatestFindingsAreCountedWhereThereAreTooMany(t *testing.T) {
	l := open(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "ledger.db")))
	const most, more = 50_000, 1000
	var batch []*ledgerv1.Record
	guards := []string{"observe a/b in the request: 1"}
	for i := range most + more {
		batch = append(batch, found(fmt.Sprintf("%06d", i), 0, guards, func(r *ledgerv1.Record) {
			r.Start = timestamppb.New(noon.Add(-time.Duration(i) * time.Second))
		}))
	}
	keep(t, l, append(batch, found("of another", 20*60, []string{"mask a/c in the request: 1"},
		func(r *ledgerv1.Record) { r.Organization = "umbrella" }))...)
	sums, err := l.Findings(t.Context(), asked("start", strconv.FormatInt(noon.AddDate(0, 0, -1).Unix(), 10)))
	require.NoError(t, err)
	require.Equal(t, noon.Add(-most*time.Second), *sums.CountedFrom)
	require.Len(t, sums.Items, 1)
	require.Equal(t, int64(most+1), sums.Items[0].Requests)
	require.Equal(t, []string{"000000", "000001", "000002", "000003", "000004"}, sums.Items[0].Examples)
	// Those of one tenant are not behind those of another.
	sums, err = l.Findings(t.Context(), asked("organization", "umbrella"))
	require.NoError(t, err)
	require.Nil(t, sums.CountedFrom)
	require.Len(t, sums.Items, 1)
}

func BenchmarkFindings(b *testing.B) {
	l := open(b, "sqlite://"+filepath.ToSlash(filepath.Join(b.TempDir(), "ledger.db")))
	const all = 200_000
	var batch []*ledgerv1.Record
	for i := range all {
		batch = append(batch, found(fmt.Sprintf("%032x", i), 0, []string{"observe personal/contact in the request: 1",
			"mask personal/numbers in the request: 2"}, func(r *ledgerv1.Record) {
			r.Start = timestamppb.New(noon.Add(-time.Duration(all-i) * 300 * time.Millisecond))
			r.Organization = fmt.Sprint("org", i%20)
			r.Details.Plan, r.Details.TraceId = []string{"openai/gpt-1", "azure/gpt-1"}, []byte("0123456789abcdef")
			r.Details.Rules = []string{"key/k limit tokens per minute", "key/k limit concurrent requests"}
		}))
	}
	keep(b, l, batch...)
	for _, filters := range [][]string{nil, {"organization", "org1"}, {"rule", "personal/contact"}, {"rule", "no"}} {
		b.Run(fmt.Sprint("sums ", filters), func(b *testing.B) {
			for b.Loop() {
				_, err := l.Findings(b.Context(), asked(filters...))
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprint("requests ", filters), func(b *testing.B) {
			for b.Loop() {
				_, err := l.Exchanges(b.Context(), asked(filters...))
				require.NoError(b, err)
			}
		})
	}
}
