package segment

import (
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/parquet-go/parquet-go/bloom"
	"github.com/parquet-go/parquet-go/bloom/xxhash"
)

const (
	// maxExact is how many values of a column a summary of a row group has. Of more it has a filter.
	maxExact = 32
	// filterBits is how many bits a filter has for each value. One search in a thousand reads a row group for nothing.
	filterBits = 14
)

// A Summary says of a segment what may be in it. It is immutable.
type Summary struct {
	Rows     int
	Bytes    int64
	From, To int64 // the first and the last StartedAt
	Groups   []GroupSummary
}

// A GroupSummary is that of a row group.
type GroupSummary struct {
	Rows     int
	From, To int64
	sets     []set  // of the columns of setColumns
	spans    []span // of the columns of spanColumns
}

// setColumns are the columns of which a summary knows which values may be in them.
func setColumns() []Column {
	return []Column{ID, RequestID, Key, Organization, Project, User, Operation, Model, Provider, Outcome, ErrorCode,
		RefusedBy, Guards, Status}
}

// spanColumns are the columns of which a summary knows the least and the greatest value.
func spanColumns() []Column { return []Column{Status, Cost, DurationMS} }

// A set says which values may be in a column.
type set struct {
	exact  []string               // all of them, if there is no filter
	filter bloom.SplitBlockFilter // nil: exact has all
}

type span struct{ least, most int64 }

func hash(s string) uint64 { return xxhash.Sum64(unsafe.Slice(unsafe.StringData(s), len(s))) } // it only reads

func (s *set) mayHave(value string) bool {
	if s.filter != nil {
		return s.filter.Check(hash(value))
	}
	for _, x := range s.exact {
		if x == value {
			return true
		}
	}
	return false
}

func (s *set) mayHavePrefix(prefix string) bool {
	if s.filter != nil {
		return true
	}
	for _, x := range s.exact {
		if strings.HasPrefix(x, prefix) {
			return true
		}
	}
	return false
}

// setOf returns the set of a column that may have a value, or nil.
func (g *GroupSummary) setOf(c Column) *set {
	for i, id := range setColumns() {
		if id == c && i < len(g.sets) {
			return &g.sets[i]
		}
	}
	return nil
}

func (g *GroupSummary) spanOf(c Column) span {
	for i, id := range spanColumns() {
		if id == c && i < len(g.spans) {
			return g.spans[i]
		}
	}
	return span{math.MinInt64, math.MaxInt64}
}

// summarize returns the summary of a row group.
func summarize(s *schema, rows []*Row) GroupSummary {
	g := GroupSummary{Rows: len(rows), From: rows[0].StartedAt, To: rows[len(rows)-1].StartedAt}
	for _, id := range setColumns() {
		g.sets = append(g.sets, setFrom(s.column(id), rows))
	}
	for _, id := range spanColumns() {
		c := s.column(id)
		x := span{math.MaxInt64, math.MinInt64}
		for _, r := range rows {
			n := *c.number(r, 0)
			x.least, x.most = min(x.least, n), max(x.most, n)
		}
		g.spans = append(g.spans, x)
	}
	return g
}

func setFrom(c *column, rows []*Row) set {
	if c.form == unique {
		filter := make(bloom.SplitBlockFilter, bloom.NumSplitBlocksOf(int64(len(rows)), filterBits))
		for _, r := range rows {
			filter.Insert(hash(*c.text(r, 0)))
		}
		return set{filter: filter}
	}
	var all []string
	if c.number != nil {
		all = distinctNumbers(c, rows)
	} else {
		all = distinctTexts(c, rows)
	}
	if len(all) <= maxExact {
		return set{exact: all}
	}
	filter := make(bloom.SplitBlockFilter, bloom.NumSplitBlocksOf(int64(len(all)), filterBits))
	for _, x := range all {
		filter.Insert(hash(x))
	}
	return set{filter: filter}
}

func distinctTexts(c *column, rows []*Row) (all []string) {
	seen, last := map[string]struct{}{}, ""
	for _, r := range rows {
		n := 1
		if c.in != nil {
			n = c.in.length(r)
		}
		for i := range n {
			x := *c.text(r, i)
			if x == last && len(all) > 0 {
				continue
			}
			last = x
			if _, ok := seen[x]; !ok {
				seen[x] = struct{}{}
				all = append(all, strings.Clone(x)) // the row's may be a part of a larger one
			}
		}
	}
	return all
}

func distinctNumbers(c *column, rows []*Row) (all []string) {
	seen := map[int64]struct{}{}
	for _, r := range rows {
		x := *c.number(r, 0)
		if _, ok := seen[x]; !ok {
			seen[x] = struct{}{}
			all = append(all, strconv.FormatInt(x, 10))
		}
	}
	return all
}

// Summary computes the summary of a segment from its rows.
func (f *File) Summary() (*Summary, error) {
	s := &Summary{Bytes: f.file.Size()}
	for g := range f.Groups() {
		rows, err := f.Rows(g)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			continue
		}
		pointers := make([]*Row, len(rows))
		for i := range rows {
			pointers[i] = &rows[i]
		}
		x := summarize(f.schema, pointers)
		s.Groups, s.Rows, s.To = append(s.Groups, x), s.Rows+x.Rows, x.To
	}
	if len(s.Groups) > 0 {
		s.From = s.Groups[0].From
	}
	return s, nil
}
