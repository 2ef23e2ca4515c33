package segment_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// A wanted is a condition, and what it says in Go.
type wanted struct {
	name  string
	where segment.Condition
	is    func(*segment.Row) bool
}

// ofID is the condition of an id, of the exchange or of its request.
func ofID(id string) segment.Condition {
	return segment.Any(segment.Equal(segment.ID, id), segment.Equal(segment.RequestID, id))
}

func conditions() []wanted {
	refused := func(r *segment.Row) bool { return r.RefusedBy != "" }
	failed := func(r *segment.Row) bool { return r.Status >= 500 || r.Outcome == "failed" }
	isFailed := segment.Any(segment.Between(segment.Status, 500, math.MaxInt64), segment.Equal(segment.Outcome, "failed"))
	return []wanted{
		{"everything", nil, func(*segment.Row) bool { return true }},
		{"an id", ofID("000000000002-77"),
			func(r *segment.Row) bool { return r.ID == "000000000002-77" }},
		{"an id that there is not", segment.Equal(segment.ID, "none"), func(*segment.Row) bool { return false }},
		{"a key", segment.Equal(segment.Key, "key_7"), func(r *segment.Row) bool { return r.Key == "key_7" }},
		{"keys", segment.Equal(segment.Key, "key_7", "key_8", "key_no"),
			func(r *segment.Row) bool { return r.Key == "key_7" || r.Key == "key_8" }},
		{"a user of an organization",
			segment.All(segment.Equal(segment.User, "user-7"), segment.Equal(segment.Organization, "org1")),
			func(r *segment.Row) bool { return r.User == "user-7" && r.Organization == "org1" }},
		{"a status", segment.Between(segment.Status, 502, 502), func(r *segment.Row) bool { return r.Status == 502 }},
		{"a status that there is not", segment.Between(segment.Status, 418, 418), func(*segment.Row) bool { return false }},
		{"costs", segment.Between(segment.Cost, 999_000_000, math.MaxInt64),
			func(r *segment.Row) bool { return r.Cost >= 999_000_000 }},
		{"slow and streamed", segment.All(segment.Between(segment.DurationMS, 19_000, math.MaxInt64),
			segment.Between(segment.Stream, 1, 1)),
			func(r *segment.Row) bool { return r.DurationMS >= 19_000 && r.Stream }},
		{"refused", segment.Not(segment.Equal(segment.RefusedBy, "")), refused},
		{"refused by a beginning", segment.Begins(segment.RefusedBy, "key/key_1"),
			func(r *segment.Row) bool { return strings.HasPrefix(r.RefusedBy, "key/key_1") }},
		{"errors", segment.All(segment.Equal(segment.RefusedBy, ""), isFailed),
			func(r *segment.Row) bool { return !refused(r) && failed(r) }},
		{"served", segment.All(segment.Equal(segment.RefusedBy, ""), segment.Not(isFailed)),
			func(r *segment.Row) bool { return !refused(r) && !failed(r) }},
		{"found", segment.Begins(segment.Guards, "observe pii/"), func(r *segment.Row) bool { return len(r.Guards) > 0 }},
		{"not found", segment.Not(segment.Begins(segment.Guards, "observe pii/")),
			func(r *segment.Row) bool { return len(r.Guards) == 0 }},
		{"of no organization that there is", segment.Not(segment.Begins(segment.Organization, "org")),
			func(*segment.Row) bool { return false }},
		{"found nothing", segment.Equal(segment.Guards, "observe"), func(*segment.Row) bool { return false }},
		{"at a provider in an attempt", segment.Equal(segment.AttemptList+2, "b"),
			func(r *segment.Row) bool { return len(r.AttemptList) > 0 }},
	}
}

func TestSearchesFindWhatALookAtAllRowsFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var all []segment.Row
	var segments []segment.Segment
	for seed, n := range []int{100, 1, 300, segment.GroupRows + 500} {
		rows := some(uint64(seed), n)
		all = append(all, rows...)
		s := encode(t, rows)
		parsed, err := segment.ParseSummary(s.Summary.Append(nil))
		require.NoError(t, err)
		s.Summary = parsed
		segments = append(segments, s)
	}
	all = newest(all)
	for _, c := range conditions() {
		t.Run(c.name, func(t *testing.T) {
			for range 20 {
				q := segment.Query{Where: c.where, Limit: 1 + r.IntN(60)}
				if r.IntN(2) == 0 {
					q.From = noon + r.Int64N(500)*1000
					q.To = q.From + r.Int64N(9000)*1000
				}
				if r.IntN(2) == 0 {
					after := all[r.IntN(len(all))]
					q.AfterAt, q.AfterID = after.StartedAt, after.ID
				}
				var want []segment.Row
				found, cost := 0, int64(0)
				for i := range all {
					x := &all[i]
					if !c.is(x) || x.StartedAt < q.From || q.To > 0 && x.StartedAt >= q.To {
						continue
					}
					found, cost = found+1, cost+x.Cost
					comesAfter := q.AfterAt == 0 || x.StartedAt < q.AfterAt || x.StartedAt == q.AfterAt && x.ID < q.AfterID
					if comesAfter && len(want) < q.Limit {
						want = append(want, *x)
					}
				}
				got, err := segment.Search(segments, q)
				require.NoError(t, err)
				require.Len(t, got, len(want))
				if len(want) > 0 {
					require.Equal(t, want, got)
				}
				q.Columns = []segment.Column{segment.ID, segment.Guards}
				got, err = segment.Search(segments, q)
				require.NoError(t, err)
				for i := range want {
					require.Equal(t, segment.Row{ID: want[i].ID, Guards: want[i].Guards}, got[i])
				}
				counted, sum := scan(t, segments, q)
				require.Equal(t, found, counted)
				require.Equal(t, cost, sum)
			}
		})
	}
}

// scan returns how many rows a query finds, and what they cost.
func scan(t *testing.T, segments []segment.Segment, q segment.Query) (rows int, cost int64) {
	t.Helper()
	require.NoError(t, segment.Scan(segments, q, func(p *segment.Part) error {
		costs, err := p.Numbers(segment.Cost)
		require.NoError(t, err)
		for _, row := range p.Rows {
			rows, cost = rows+1, cost+costs[row]
		}
		return nil
	}))
	return rows, cost
}

func TestAScanReadsTextsAndLists(t *testing.T) {
	rows := some(5, 400)
	s := encode(t, rows)
	want, got := map[string]int{}, map[string]int{}
	for i := range rows {
		want[rows[i].Model+strings.Join(rows[i].Guards, "+")] += int(rows[i].Used[usage.InputTokens])
	}
	require.NoError(t, segment.Scan([]segment.Segment{s}, segment.Query{}, func(p *segment.Part) error {
		models, err := p.Texts(segment.Model)
		require.NoError(t, err)
		guards, err := p.Texts(segment.Guards)
		require.NoError(t, err)
		tokens, err := p.Numbers(segment.UsedColumn(usage.InputTokens))
		require.NoError(t, err)
		for _, row := range p.Rows {
			got[models.At(row)+strings.Join(guards.Of(row), "+")] += int(tokens[row])
		}
		return nil
	}))
	require.Equal(t, want, got)
}

// What is not the same as it was written is an error that names the segment, wherever it was changed.
func TestADamagedSegmentIsAnError(t *testing.T) {
	rows := some(6, 300)
	body, summary, err := segment.NewEncoder().Encode(rows)
	require.NoError(t, err)
	all := func(body []byte) (n int, err error) {
		f, err := segment.OpenBytes("2026/03/10/x", body)
		if err != nil {
			return 0, err
		}
		for g := range f.Groups() {
			got, err := f.Rows(g)
			if err != nil {
				return 0, err
			}
			n += len(got)
		}
		return n, nil
	}
	n, err := all(body)
	require.NoError(t, err)
	require.Equal(t, len(rows), n)
	r := rand.New(rand.NewPCG(7, 7))
	seen := 0
	for range 1500 {
		damaged := slices.Clone(body)
		damaged[r.IntN(len(damaged))] ^= 1 << r.IntN(8)
		n, err := all(damaged)
		if err == nil { // a filter for others, or an index, which nothing reads
			require.Equal(t, len(rows), n)
			continue
		}
		seen++
		require.ErrorContains(t, err, "segment 2026/03/10/x: ")
	}
	require.Greater(t, seen, 500)
	for n := 0; n < len(body); n += 1 + len(body)/500 {
		_, err := segment.OpenBytes("2026/03/10/x", body[:n])
		require.ErrorContains(t, err, "segment 2026/03/10/x: ")
	}
	other := segment.Segment{Summary: summary, Open: encode(t, some(8, 200)).Open}
	_, err = segment.Search([]segment.Segment{other}, segment.Query{Limit: 1})
	require.ErrorContains(t, err, "not the one that was summed up")
}

func FuzzOpen(f *testing.F) {
	body, summary, err := segment.NewEncoder().Encode(some(1, 30))
	require.NoError(f, err)
	f.Add(body, summary.Append(nil))
	f.Fuzz(func(t *testing.T, body, summary []byte) {
		file, err := segment.OpenBytes("s", body)
		if err == nil {
			for g := range file.Groups() {
				_, _ = file.Rows(g)
			}
		}
		if s, err := segment.ParseSummary(summary); err == nil {
			again, err := segment.ParseSummary(s.Append(nil))
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	})
}
