package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/pgtest"
)

// million is how many rows the pages are measured with.
const million = 1_000_000

// many keeps a million exchanges of 30 days, 100,000 keys and 20 organizations.
func many(b *testing.B, l *ledger.Ledger) {
	r := rand.New(rand.NewPCG(1, 1))
	start := time.Now()
	for n := 0; n < million; {
		var batch []*ledgerv1.Record
		for range 1000 {
			batch = append(batch, rec(fmt.Sprintf("%032x", n), func(x *ledgerv1.Record) {
				at := noon.Add(time.Duration(n-million) * (30 * 24 * time.Hour / million))
				x.Start, x.End = timestamppb.New(at), timestamppb.New(at.Add(time.Duration(r.Int64N(int64(20*time.Second)))))
				x.Key, x.Organization, x.Project = fmt.Sprint("key_", r.IntN(100_000)), fmt.Sprint("org",
					r.IntN(20)), fmt.Sprint("project", r.IntN(3))
				x.Model, x.User = fmt.Sprint("model", r.IntN(5)), fmt.Sprint("user", r.IntN(1000))
				if r.IntN(50) == 0 {
					x.Outcome, x.Status = "failed", 502
				}
			}))
			n++
		}
		require.NoError(b, l.Record(context.Background(), batch))
	}
	b.ReportMetric(million/time.Since(start).Seconds(), "records/s")
}

func BenchmarkPagesOfAMillion(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		pages(b, "sqlite://"+
			filepath.ToSlash(filepath.Join(b.TempDir(), "ledger.db")))
	})
	b.Run("postgres", func(b *testing.B) { pages(b, pgtest.Start(b)) })
}

func pages(b *testing.B, dsn string) {
	l := open(b, dsn)
	many(b, l)
	from := func(days int) string { return fmt.Sprint("start_time=", noon.AddDate(0, 0, -days).Unix()) }
	acme := ledger.Restriction{Organization: "org1"}
	query := func(resource, query string, may ledger.Restriction) func() error {
		return func() error {
			_, err := l.Usage(context.Background(), resource, query, may)
			return err
		}
	}
	exchanges := func(filters map[string]string) func() error {
		return func() error {
			_, err := l.Exchanges(context.Background(), adminapi.ListOptions{Filters: filters})
			return err
		}
	}
	summary := func(days int, filters ...string) func() error {
		o := adminapi.ListOptions{Filters: map[string]string{"start": fmt.Sprint(noon.AddDate(0, 0, -days).Unix())}}
		for i := 0; i < len(filters); i += 2 {
			o.Filters[filters[i]] = filters[i+1]
		}
		return func() error {
			_, err := l.Summary(context.Background(), o)
			return err
		}
	}
	for _, page := range []struct {
		name string
		get  func() error
	}{
		{"usage/7 days by model", query("completions", from(7)+"&group_by=model", ledger.Restriction{})},
		{"usage/30 days by project", query("completions", from(30)+"&limit=31&group_by=project_id", ledger.Restriction{})},
		{"usage/7 days of a tenant by key", query("completions", from(7)+"&group_by=api_key_id", acme)},
		{"usage/24 hours", query("completions", from(1)+"&bucket_width=1h", ledger.Restriction{})},
		{"usage/60 minutes", query("completions", from(1)+"&bucket_width=1m", ledger.Restriction{})},
		{"usage/7 days of a user", query("completions", from(7)+"&user_ids=user7", ledger.Restriction{})},
		{"usage/7 days by user", query("completions", from(7)+"&group_by=user_id", ledger.Restriction{})},
		{"costs/30 days", query("costs", from(30)+"&limit=31&group_by=line_item", ledger.Restriction{})},
		{"usage/30 days of a key", query("completions", from(30)+"&limit=31", ledger.Restriction{Key: "key_7"})},
		{"exchanges/all", exchanges(nil)},
		{"exchanges/of a key", exchanges(map[string]string{"key": "key_7"})},
		{"exchanges/of a tenant that failed", exchanges(map[string]string{"organization": "org1", "outcome": "failed"})},
		{"exchanges/of a model", exchanges(map[string]string{"model": "model1"})},
		{"exchanges/none", exchanges(map[string]string{"key": "none"})},
		{"exchanges/of a provider that has none of it",
			exchanges(map[string]string{"provider": "openai", "user": "nobody"})},
		{"summary/1 day", summary(1)},
		{"summary/7 days", summary(7)},
		{"summary/30 days", summary(30)},
		{"summary/30 days of a key", summary(30, "key", "key_7")},
		{"spent/everything", func() error {
			answer, err := l.Spent(context.Background(), "")
			_ = answer
			return err
		}},
	} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, page.get())
			}
		})
	}
}
