package segment

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// A Segment is one of those that are searched: its summary, and how it is opened. A search opens it only if it has to.
type Segment struct {
	Summary *Summary
	Open    func() (*File, error)
}

// A Query says which rows are wanted.
type Query struct {
	From, To int64     // StartedAt is at least From, and before To; 0: any
	Where    Condition // nil: any
	// Only rows that come after this one, newest first; 0: all. An empty id comes after all of its time.
	AfterAt int64
	AfterID string
	Limit   int      // how many rows are wanted
	Columns []Column // that are read; nil: all
}

// may reports whether a row group may have a row that is wanted.
func (q *Query) may(g *GroupSummary) bool {
	return g.To >= q.From && (q.To == 0 || g.From < q.To) && (q.AfterAt == 0 || g.From <= q.AfterAt) &&
		(q.Where == nil || q.Where.may(g))
}

// A groupReader reads the columns of a row group, each once.
type groupReader struct {
	file    *File
	group   int
	summary *GroupSummary
	columns map[Column]*values
}

func (g *groupReader) column(id Column) (*values, error) {
	c := g.file.schema.column(id)
	if v := g.columns[c.id]; v != nil {
		return v, nil
	}
	v, err := g.file.load(g.group, c)
	if err == nil {
		g.columns[c.id] = v
	}
	return v, err
}

// rows returns which rows of the group are wanted.
func (g *groupReader) rows(q *Query) ([]bool, error) {
	keep := make([]bool, g.summary.Rows)
	from, to := 0, len(keep)
	if g.summary.From < q.From || q.To > 0 && g.summary.To >= q.To || q.AfterAt > 0 && g.summary.To > q.AfterAt {
		at, err := g.column(StartedAt)
		if err != nil {
			return nil, err
		}
		if from, _ = slices.BinarySearch(at.numbers, q.From); q.To > 0 {
			to, _ = slices.BinarySearch(at.numbers, q.To)
		}
		if q.AfterAt > 0 {
			end, _ := slices.BinarySearch(at.numbers, q.AfterAt+1)
			to = min(to, end)
		}
	}
	for i := from; i < to; i++ {
		keep[i] = true
	}
	if from >= to || q.Where == nil {
		return keep, nil
	}
	return keep, q.Where.match(g, keep)
}

// A place is a row group of a segment.
type place struct {
	segment *Segment
	group   int
}

func (p place) summary() *GroupSummary { return &p.segment.Summary.Groups[p.group] }

func (p place) read() (*groupReader, error) {
	f, err := p.segment.Open()
	if err != nil {
		return nil, err
	}
	if f.Groups() <= p.group || int(f.file.RowGroups()[p.group].NumRows()) != p.summary().Rows {
		return nil, f.stale()
	}
	return &groupReader{file: f, group: p.group, summary: p.summary(), columns: map[Column]*values{}}, nil
}

// places returns the row groups that may have rows that are wanted, newest first.
func places(segments []Segment, q *Query) []place {
	var all []place
	for i := range segments {
		s := &segments[i]
		if s.Summary.To < q.From || q.To > 0 && s.Summary.From >= q.To || q.AfterAt > 0 && s.Summary.From > q.AfterAt {
			continue
		}
		for g := range s.Summary.Groups {
			if q.may(&s.Summary.Groups[g]) {
				all = append(all, place{s, g})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(b.summary().To, a.summary().To) })
	return all
}

// A hit is a row that was found.
type hit struct {
	at   int64
	id   string
	in   *groupReader
	rank int // of its row group
	row  int
}

func compareHits(a, b hit) int { return compare(b.at, b.id, a.at, a.id) }

// Search returns the rows that a query wants, newest first, of segments that do not share rows. It reads several row
// groups at once, as many as there are processors.
func Search(segments []Segment, q Query) ([]Row, error) {
	var best []hit
	if q.Limit <= 0 {
		return nil, nil
	}
	for left, rank, wave := places(segments, &q), 0, 1; len(left) > 0; wave = runtime.GOMAXPROCS(0) {
		some := left[:min(wave, len(left))]
		if len(best) == q.Limit { // what is older does not matter any more
			older := func(p place) bool { return best[q.Limit-1].at > p.summary().To }
			if n := slices.IndexFunc(some, older); n >= 0 {
				some, left = some[:n], some[:n]
			}
		}
		found := make([][]hit, len(some))
		err := atOnce(len(some), func(i int) (err error) {
			found[i], err = some[i].hits(&q, rank+i)
			return err
		})
		if err != nil {
			return nil, err
		}
		left, rank = left[len(some):], rank+len(some)
		for _, hits := range found {
			best = append(best, hits...)
		}
		slices.SortFunc(best, compareHits)
		best = best[:min(len(best), q.Limit)]
	}
	return fetch(best, q.Columns)
}

// atOnce calls f with the numbers below n, at the same time. What panics is an error.
func atOnce(n int, f func(int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("reading segments: %v", p)
				}
			}()
			errs[i] = f(i)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// hits returns the rows of a row group that are wanted, newest first, at most as many as a page has.
func (p place) hits(q *Query, rank int) ([]hit, error) {
	g, err := p.read()
	if err != nil {
		return nil, err
	}
	return g.hits(q, rank)
}

func (g *groupReader) hits(q *Query, rank int) (found []hit, err error) {
	keep, err := g.rows(q)
	if err != nil || !slices.Contains(keep, true) {
		return nil, err
	}
	at, err := g.column(StartedAt)
	if err != nil {
		return nil, err
	}
	ids, err := g.column(ID)
	if err != nil {
		return nil, err
	}
	for row := len(keep) - 1; row >= 0 && len(found) < q.Limit; row-- {
		x := hit{at.numbers[row], ids.text(row), g, rank, row}
		if keep[row] && (q.AfterAt == 0 || compare(x.at, x.id, q.AfterAt, q.AfterID) < 0) {
			found = append(found, x)
		}
	}
	return found, nil
}

// fetch reads rows, those of a row group together.
func fetch(hits []hit, wanted []Column) ([]Row, error) {
	rows := make([]Row, len(hits))
	order := make([]int, len(hits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(hits[a].rank, hits[b].rank) })
	groups := chunkBy(order, func(a, b int) bool { return hits[a].rank == hits[b].rank })
	for some := range slices.Chunk(groups, runtime.GOMAXPROCS(0)) {
		err := atOnce(len(some), func(i int) error { return hits[some[i][0]].in.fill(rows, hits, some[i], wanted) })
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// chunkBy cuts a list where neighbours are not together.
func chunkBy(list []int, together func(a, b int) bool) (chunks [][]int) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && together(list[0], list[n]) {
			n++
		}
		chunks, list = append(chunks, list[:n]), list[n:]
	}
	return chunks
}

// fill reads the columns of some rows of a row group.
func (g *groupReader) fill(rows []Row, hits []hit, some []int, wanted []Column) error {
	for i := range g.file.schema.columns {
		c := &g.file.schema.columns[i]
		if wanted != nil && !slices.Contains(wanted, c.id) && (c.in == nil || !slices.Contains(wanted, c.in.id)) {
			continue
		}
		v, err := g.column(c.id)
		if err != nil {
			return err
		}
		for _, k := range some {
			v.fill(c, &rows[k], hits[k].row)
		}
	}
	return nil
}
