package ledger_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

func TestTheRequestLogIsPagedNewestFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		for i := range 25 {
			// Several began at once.
			keep(t, l, rec(fmt.Sprintf("r%02d", i),
				func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.Add(time.Duration(i/5) * time.Second)) }))
		}
		var seen []string
		for after := ""; ; {
			page, err := l.Exchanges(t.Context(), adminapi.ListOptions{Limit: 4, After: after})
			require.NoError(t, err)
			for _, e := range page.Items {
				seen = append(seen, e.ID)
			}
			// What comes meanwhile is newer, and does not move what follows.
			keep(t, l, rec("new"+after, func(r *ledgerv1.Record) { r.Start = timestamppb.New(noon.Add(time.Minute)) }))
			if after = page.Next; after == "" {
				break
			}
		}
		require.Len(t, seen, 25)
		for i, id := range seen {
			require.Equal(t, fmt.Sprintf("r%02d", 24-i), id)
		}
	})
}

func TestTheRequestLogIsFiltered(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		seed(t, l)
		for filter, want := range map[[2]string]int{{"organization", "acme"}: 5, {"project", "web"}: 5, {"key", "key_2"}: 1,
			{"model", "claude"}: 1, {"provider", "openai"}: 7,
			{"outcome", "rejected"}: 1, {"user", "u2"}: 1, {"operation", "embeddings"}: 1, {"key", "' OR 1=1 --"}: 0,
			{"start", strconv.FormatInt(noon.Truncate(24*time.Hour).Unix(), 10)}: 6,
			{"end", strconv.FormatInt(noon.Truncate(24*time.Hour).Unix(), 10)}:   1} {
			page, err := l.Exchanges(t.Context(), adminapi.ListOptions{Filters: map[string]string{filter[0]: filter[1]}})
			require.NoError(t, err)
			require.Len(t, page.Items, want, filter)
			require.NotNil(t, page.Items)
		}
		for _, query := range []string{"b", "req_b"} {
			page, err := l.Exchanges(t.Context(), adminapi.ListOptions{Query: query})
			require.NoError(t, err)
			require.Len(t, page.Items, 1)
			require.Equal(t, adminapi.Exchange{ID: "b", RequestID: "req_b",
				Start: noon.Truncate(24 * time.Hour).Add(2 * time.Hour), DurationMS: 2000, FirstByteMS: 100, Key: "key_2",
				Organization: "acme", Project: "app", User: "u2", Operation: "chat/completions", Model: "claude",
				Provider: "openai", Upstream: "gpt-1", Attempts: 1, Status: 200,
				Outcome: "finished", InputTokens: 100, OutputTokens: 10, CachedTokens: 40, CostUSD: "0.06", Priced: true,
				PriceVersion: "1", Requests: 1},
				page.Items[0])
		}
		for _, o := range []adminapi.ListOptions{{After: "!"}, {After: "YWJj"}, {Filters: map[string]string{"start": "x"}},
			{Filters: map[string]string{"color": "red"}}} {
			_, err := l.Exchanges(t.Context(), o)
			require.Error(t, err)
		}
	})
}

func TestSummary(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		seed(t, l)
		keep(t, l, rec("x", func(r *ledgerv1.Record) {
			r.Status, r.Outcome, r.Provider, r.CostNanoUsd = 502, "failed",
				"azure", 7
		}))
		s, err := l.Summary(t.Context(), adminapi.ListOptions{})
		require.NoError(t, err)
		require.Len(t, s.Hours, 25, "of 24 hours, that in which they began and that in which they end, too")
		require.Equal(t, int64(11), s.Requests)
		require.Equal(t, int64(1), s.Errors)
		require.Equal(t, "0.060004007", s.CostUSD)
		require.InEpsilon(t, 2000, s.LatencyP50, 0.6)
		require.Equal(t, int64(1), s.Hours[24].Errors)
		require.Equal(t, "0", s.Hours[0].CostUSD)
		require.Equal(t, []string{"claude", "gpt"}, []string{s.Models[0].Name, s.Models[1].Name}, "those that cost most")
		require.Len(t, s.Providers, 2)
		sum := int64(0)
		for _, h := range s.Hours {
			sum += h.Requests
		}
		require.Equal(t, s.Requests, sum)
		for filter, want := range map[[2]string]int64{{"key", "key_2"}: 1, {"organization", "umbrella"}: 5,
			{"project", "app"}: 1, {"model", "claude"}: 1, {"provider", "azure"}: 1,
			{"start", strconv.FormatInt(noon.AddDate(0, 0, -3).Unix(), 10)}: 12} {
			s, err := l.Summary(t.Context(), adminapi.ListOptions{Filters: map[string]string{filter[0]: filter[1]}})
			require.NoError(t, err)
			require.Equal(t, want, s.Requests, filter)
		}
		for _, filter := range [][2]string{{"start", "1"}, {"start", "x"}, {"end", "1"}, {"color", "red"}} {
			_, err := l.Summary(t.Context(), adminapi.ListOptions{Filters: map[string]string{filter[0]: filter[1]}})
			require.Equal(t, filter[0] == "end" || err != nil, true, filter)
		}
	})
}

func TestTheAuditLogKeepsAnEntryOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		entry := func(i int) adminapi.AuditEntry {
			return adminapi.AuditEntry{ID: fmt.Sprintf("%04d", i), At: noon.Add(time.Duration(i) * time.Second),
				Actor: []string{"ann", "bob"}[i%2], Role: "owner", Address: "127.0.0.1",
				Action: "update", Kind: "Key", Name: fmt.Sprint("key_", i), Diff: "-a\n+b\x00", RequestID: "req_1"}
		}
		var all []adminapi.AuditEntry
		for i := range 10 {
			all = append(all, entry(i))
		}
		require.NoError(t, l.AppendAudit(t.Context(), all))
		require.NoError(t, l.AppendAudit(t.Context(), append(all, entry(10), entry(10))))
		require.NoError(t, l.AppendAudit(t.Context(), nil))
		var ids []string
		for after := ""; ; {
			page, err := l.Audit(t.Context(), adminapi.ListOptions{Limit: 4, After: after})
			require.NoError(t, err)
			for _, e := range page.Items {
				ids = append(ids, e.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		require.Equal(t, []string{"0010", "0009", "0008", "0007", "0006", "0005", "0004", "0003", "0002", "0001", "0000"},
			ids)
		page, err := l.Audit(t.Context(), adminapi.ListOptions{Filters: map[string]string{"actor": "bob", "kind": "Key",
			"name": "key_3", "action": "update",
			"start": strconv.FormatInt(noon.Unix(), 10), "end": strconv.FormatInt(noon.Unix()+4, 10)}})
		require.NoError(t, err)
		want := entry(3)
		want.Diff = "-a\n+b"
		require.Equal(t, []adminapi.AuditEntry{want}, page.Items)
		_, err = l.Audit(t.Context(), adminapi.ListOptions{Filters: map[string]string{"color": "red"}})
		require.Error(t, err)
	})
}

func TestAUserIsErasedFromExchangesAndSums(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		seed(t, l)
		before, err := l.UserData(t.Context(), "u2")
		require.NoError(t, err)
		require.Equal(t, int64(1), before.Exchanges)
		require.Positive(t, before.Sums)
		requests, cost := requireSums(t, l)
		erased, err := l.EraseUser(t.Context(), "u2")
		require.NoError(t, err)
		require.Equal(t, before, erased)
		left, err := l.UserData(t.Context(), "u2")
		require.NoError(t, err)
		require.Zero(t, left)
		again, err := l.EraseUser(t.Context(), "u2")
		require.NoError(t, err)
		require.Zero(t, again)
		other, err := l.UserData(t.Context(), "u1")
		require.NoError(t, err)
		require.Positive(t, other.Exchanges, "others stay")
		sameRequests, sameCost := requireSums(t, l)
		require.Equal(t, []int64{requests, cost}, []int64{sameRequests, sameCost}, "what was used and paid stays")
	})
}

func TestManyExchangesOfAUserAreErasedInPieces(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		var records []*ledgerv1.Record
		for i := range 2500 {
			records = append(records, rec(fmt.Sprintf("r%d", i)))
		}
		keep(t, l, records...)
		erased, err := l.EraseUser(t.Context(), "u1")
		require.NoError(t, err)
		require.Equal(t, int64(2500), erased.Exchanges)
		require.False(t, erased.More)
	})
}
