package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/histogram"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// Widths of the sums of attempts, in seconds.
const (
	minutes = 60
	hours   = 3600
	days    = 86400
)

// Measures of the attempts at a provider, by their columns.
const (
	tried = iota
	unserved
	limited
	firstBytes // and the buckets after it
	durations  = firstBytes + histogram.Buckets
	tries      = durations + histogram.Buckets
)

// A provided identifies a sum of attempts at a provider.
type provided struct {
	width, start int64
	provider     string
}

// A record of the health of a provider.
type health struct {
	sums    [tries]int64
	last    string // error
	lastAt  int64  // microseconds; 0: none
	cooling int64  // microseconds
}

// add adds an attempt that began at a time.
func (h *health) add(a *ledgerv1.Attempt, at time.Time) {
	h.sums[tried]++
	if a.GetFirstByteMs() > 0 {
		h.sums[firstBytes+histogram.Bucket(a.GetFirstByteMs())]++
	}
	if a.GetStatus() == http.StatusTooManyRequests {
		h.sums[limited]++
	}
	if a.GetError() == "" {
		h.sums[durations+histogram.Bucket(a.GetDurationMs())]++
		return
	}
	h.sums[unserved]++
	end := at.Add(time.Duration(a.GetDurationMs()) * time.Millisecond)
	if end.UnixMicro() >= h.lastAt {
		h.last, h.lastAt = a.GetError(), end.UnixMicro()
	}
	if cool := time.Duration(a.GetCoolMs()) * time.Millisecond; cool > 0 {
		h.cooling = max(h.cooling, end.Add(cool).UnixMicro())
	}
}

var healthColumns = func() []string {
	all := []string{"attempts", "failed", "rate_limited"}
	for _, what := range []string{"first_byte_", "duration_"} {
		for i := range histogram.Buckets {
			all = append(all, what+strconv.Itoa(i))
		}
	}
	return all
}()

var intoProviders = func() *sqldb.Insert {
	var b strings.Builder
	for _, c := range healthColumns {
		b.WriteString(c + " = provider_attempts." + c + " + excluded." + c + ", ")
	}
	const later = "CASE WHEN excluded.%[1]s >= provider_attempts.%[1]s THEN excluded.%[2]s ELSE provider_attempts.%[2]s END"
	b.WriteString("last_error = " + fmt.Sprintf(later, "last_error_at", "last_error"))
	b.WriteString(", last_error_at = " + fmt.Sprintf(later, "last_error_at", "last_error_at"))
	b.WriteString(", cooling_until = " + fmt.Sprintf(later, "cooling_until", "cooling_until"))
	return sqldb.NewInsert("provider_attempts", "width, start, provider, "+strings.Join(healthColumns, ", ")+
		", last_error, last_error_at, cooling_until", "ON CONFLICT (width, start, provider) DO UPDATE SET "+b.String())
}()

type healths map[provided]*health

// add adds an attempt of an exchange that began at a time.
func (t healths) add(a *ledgerv1.Attempt, exchange time.Time) {
	at := exchange.Add(time.Duration(a.GetStartMs()) * time.Millisecond)
	for _, width := range [...]int64{minutes, hours} {
		key := provided{width, at.Unix() / width * width, a.GetProvider()}
		if t[key] == nil {
			t[key] = &health{}
		}
		t[key].add(a, at)
	}
}

// addHealth adds the attempts of exchanges to the sums of their providers, in an order that is the same for all
// transactions. Vendors' batches have no attempts, and of an exchange that the gateway's end has cut nobody knows how
// its attempt went.
func (f *folder) addHealth(ctx context.Context, tx *sql.Tx, rows []row) error {
	total := healths{}
	var only ledgerv1.Attempt
	for i := range rows {
		r := &rows[i]
		if r.Batch || r.Outcome == "interrupted" {
			continue
		}
		for _, a := range r.AttemptList {
			total.add(a, r.at)
		}
		if len(r.AttemptList) == 0 && r.Attempts > 0 && r.Provider != "" && r.RefusedBy == "" {
			r.onlyAttempt(&only)
			total.add(&only, r.at)
		}
	}
	all := slices.SortedFunc(maps.Keys(total), func(a, b provided) int {
		return cmp.Or(cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start), strings.Compare(a.provider, b.provider))
	})
	_, err := f.db.Put(ctx, tx, intoProviders, false, len(all), func(i int, v *sqldb.Values) {
		h := total[all[i]]
		v.Add(all[i].width, all[i].start, all[i].provider)
		v.AddAll(h.sums[:])
		v.Add(h.last, h.lastAt, h.cooling)
	})
	return err
}

// Health returns how the attempts at each provider went in the last 15 minutes and 24 hours, by name. A provider
// without an attempt in 24 hours is missing. The 24 hours are whole hours and the one that runs.
func (l usageReader) Health(ctx context.Context) ([]adminapi.ProviderHealth, error) {
	now := l.db.Now()
	found := map[string]*adminapi.ProviderHealth{}
	of := func(name string) *adminapi.ProviderHealth {
		if found[name] == nil {
			found[name] = &adminapi.ProviderHealth{Provider: name}
		}
		return found[name]
	}
	err := l.window(ctx, minutes, now.Add(-15*time.Minute), func(name string, h *health) {
		of(name).Last15Minutes = h.window()
	})
	if err == nil {
		err = l.window(ctx, hours, now.Add(-24*time.Hour), func(name string, h *health) {
			p := of(name)
			p.Last24Hours, p.LastError = h.window(), h.last
			if h.lastAt > 0 {
				at := time.UnixMicro(h.lastAt).UTC()
				p.LastErrorAt = &at
			}
			if until := time.UnixMicro(h.cooling).UTC(); until.After(now) {
				p.CoolingUntil = &until
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading the health of the providers: %w", err)
	}
	all := make([]adminapi.ProviderHealth, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		p := found[name]
		p.State = p.Judge()
		all = append(all, *p)
	}
	return all, nil
}

// window sums what began after a time, by provider.
func (l usageReader) window(ctx context.Context, width int, after time.Time, f func(string, *health)) error {
	if err := l.folded(ctx); err != nil {
		return err
	}
	all := map[string]*health{}
	s := l.db.Statement("SELECT provider, ", strings.Join(healthColumns, ", "),
		", last_error, last_error_at, cooling_until FROM provider_attempts")
	s.And("width", "=", width)
	s.And("start", ">", after.Unix())
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
		var name string
		var h health
		into := []any{&name}
		for i := range h.sums {
			into = append(into, &h.sums[i])
		}
		if err := rows.Scan(append(into, &h.last, &h.lastAt, &h.cooling)...); err != nil {
			return err
		}
		sum := all[name]
		if sum == nil {
			all[name] = &h
			return nil
		}
		for i, n := range h.sums {
			sum.sums[i] += n
		}
		if h.lastAt >= sum.lastAt {
			sum.last, sum.lastAt = h.last, h.lastAt
		}
		sum.cooling = max(sum.cooling, h.cooling)
		return nil
	})
	for name, h := range all {
		f(name, h)
	}
	return err
}

func (h *health) window() adminapi.HealthWindow {
	w := adminapi.HealthWindow{Attempts: h.sums[tried], Failed: h.sums[unserved], RateLimited: h.sums[limited]}
	if w.Attempts > 0 {
		w.SuccessRate = float64(w.Attempts-w.Failed) / float64(w.Attempts)
	}
	w.FirstByte, w.Duration = percentiles(h.sums[firstBytes:durations]), percentiles(h.sums[durations:])
	return w
}

func percentiles(counts []int64) adminapi.Percentiles {
	return adminapi.Percentiles{P50: histogram.Percentile(counts, 0.5), P95: histogram.Percentile(counts, 0.95),
		P99: histogram.Percentile(counts, 0.99)}
}

// Tried returns which of some providers were ever asked, as far as sums are kept.
func (l usageReader) Tried(ctx context.Context, providers []string) ([]string, error) {
	if len(providers) == 0 {
		return nil, nil
	}
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	s := l.db.Statement("SELECT DISTINCT provider FROM provider_attempts")
	s.And("width", "=", hours)
	s.Among("provider", providers)
	all, err := sqldb.All(ctx, s, l.db.Read, func(name *string) []any { return []any{name} })
	return all, doing("reading which providers were asked", err)
}

// A Minute is how many attempts at a provider began in a minute, and how many of them failed.
type Minute struct {
	Start            time.Time
	Attempts, Failed int64
}

// Minutes returns the attempts at a provider since a time, by minute, those without any left out. They are known of
// the last two days.
func (l usageReader) Minutes(ctx context.Context, provider string, since time.Time) ([]Minute, error) {
	if err := l.folded(ctx); err != nil {
		return nil, err
	}
	s := l.db.Statement("SELECT start, attempts, failed FROM provider_attempts")
	s.And("width", "=", minutes)
	s.And("provider", "=", provider)
	s.And("start", ">=", since.Truncate(time.Minute).Unix())
	s.Add(" ORDER BY start")
	all, err := sqldb.All(ctx, s, l.db.Read, func(m *Minute) []any {
		return []any{sqldb.Time{To: &m.Start, Unit: time.Second}, &m.Attempts, &m.Failed}
	})
	return all, doing("reading the attempts at a provider", err)
}

// Database returns the database, for package incidents, which keeps tables of its own in it.
func (l *Ledger) Database() *sqldb.DB { return l.db }
