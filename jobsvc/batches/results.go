package batches

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	kindOutput byte = 'O'
	kindError  byte = 'E'

	// minGather and maxGather bound for how long an answer waits for others: a hundredth of the time that answers have
	// come for. Each commit is a revision of the record, which etcd keeps until it is compacted; a batch of 24 hours has
	// a few thousand.
	minGather, maxGather = 100 * time.Millisecond, 30 * time.Second

	fullGroup  = 1 << 20   // bytes that do not wait
	maxSegment = 256 << 10 // bytes of a segment that a later one takes over
)

// A group is answers that become durable together.
type group struct {
	text              []byte // lines of a segment
	completed, failed int
	usage             openai.Usage
	charge            Charge
}

func (g *group) lines() int { return g.completed + g.failed }

// results gathers answers and makes them durable. Those that ask add to it, and one goroutine runs flush.
type results struct {
	w     *work
	names naming
	many  int // lines that do not wait for others
	// pricing is of answers that no exchange charges; nil: they are charged.
	pricing *pricing
	// committed is called for each durable group.
	committed func(lines int)

	mu      sync.Mutex // guards what follows
	pending group
	ended   bool
	changed chan struct{} // buffers one

	met encounter

	// What follows is flush's.
	began    time.Time
	head     string // of the chain
	previous string // the segment before head
	tail     []byte // the content of head, while a segment may still take it over
}

func (w *work) newResults(committed func(lines int)) *results {
	r := &results{
		w: w, names: w.names(), many: max(1, w.s.Limits.Open/4), committed: committed, changed: make(chan struct{}, 1),
		began: time.Now(), head: w.rec.Value.Head,
	}
	if met := w.rec.Value.Met; met != nil { // of the worker before
		r.met.met = *met
	}
	r.met.sum(w.rec.Value.done(), w.s.Now())
	return r
}

// add adds the answer to a line, and keeps nothing of it.
func (r *results) add(number int, customID []byte, a *answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &r.pending
	before := len(g.text)
	kind := kindError
	if a.completed() {
		kind = kindOutput
		g.completed++
	} else {
		g.failed++
	}
	g.usage = plus(g.usage, a.usage)
	g.charge = g.charge.plus(r.pricing.charge(a))
	g.text = append(strconv.AppendInt(append(g.text, kind, ' '), int64(number), 10), ' ')
	g.text = append(r.names.appendLine(g.text, number, customID, a), '\n')
	r.w.add(int64(len(g.text) - before))
	if g.lines() == 1 || r.ripe() {
		r.tell()
	}
}

// ripe reports whether what is pending need not wait for more.
func (r *results) ripe() bool {
	return r.ended || r.pending.lines() >= r.many || len(r.pending.text) >= fullGroup
}

func (r *results) tell() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// end says that nothing more is added.
func (r *results) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.tell()
}

// flush makes answers durable until all are, or ctx ends, or the claim is lost. What is not durable then is dropped.
func (r *results) flush(ctx context.Context) error {
	var g group
	defer func() { r.w.put(int64(len(g.text))) }()
	for {
		last, err := r.next(ctx, &g)
		if err != nil {
			return err
		}
		if g.lines() > 0 {
			if err := r.commit(ctx, &g); err != nil {
				return err
			}
			r.w.put(int64(len(g.text)))
			r.committed(g.lines())
			g = group{text: reuse(g.text)}
		} else if !last {
			if err := r.note(ctx); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// reuse returns a buffer for the next group.
func reuse(b []byte) []byte {
	if cap(b) > 2*fullGroup {
		return nil
	}
	return b[:0]
}

// gatherFor returns for how long an answer waits for others when answers have come for a time.
func gatherFor(d time.Duration) time.Duration { return min(max(d/100, minGather), maxGather) }

// note writes what lines have met while none was answered.
func (r *results) note(ctx context.Context) error {
	return r.w.change(ctx, func(b *Batch, _ *store.Txn) error {
		b.Met = r.met.sum(b.done(), r.w.s.Now())
		return nil
	})
}

// next waits for answers that are to be committed, and moves them into g. It reports whether they are the last. There
// are none if what the lines have met is to be written.
func (r *results) next(ctx context.Context, g *group) (last bool, err error) {
	var due <-chan time.Time
	noting := time.NewTicker(min(max(time.Since(r.began)/50, minNote), maxNote))
	defer noting.Stop()
	for {
		r.mu.Lock()
		if r.pending.lines() > 0 && due == nil {
			timer := time.NewTimer(gatherFor(time.Since(r.began)))
			defer timer.Stop()
			due = timer.C
		}
		if r.ripe() {
			*g, r.pending = r.pending, *g
			last = r.ended
			r.mu.Unlock()
			return last, nil
		}
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-r.changed:
		case <-noting.C:
			if due == nil && r.met.isNew() {
				return false, nil
			}
		case <-due:
			r.mu.Lock()
			*g, r.pending = r.pending, *g
			last = r.ended
			r.mu.Unlock()
			return last, nil
		}
	}
}

// drop gives back the memory of answers that were added but never committed. It is called once nothing is added
// and flush has returned.
func (r *results) drop() { r.w.put(int64(len(r.pending.text))) }

// commit writes a group: a new segment, or, as long as the newest is small, one that takes its place and holds its
// answers too, so that a batch that is answered slowly has no more segments than one that is answered fast.
func (r *results) commit(ctx context.Context, g *group) error {
	previous, tail := r.head, []byte(nil)
	if len(r.tail) > 0 {
		previous, tail = r.previous, r.tail
	}
	r.w.segments++
	name := segmentName(r.w.claim.Epoch, r.w.segments)
	if err := r.write(ctx, name, appendHeader(nil, previous), tail, g.text); err != nil {
		return err
	}
	err := r.w.change(ctx, func(b *Batch, _ *store.Txn) error {
		if b.Head != r.head {
			return errLost // another has gone on
		}
		b.Head = name
		b.Counts.Completed += g.completed
		b.Counts.Failed += g.failed
		b.Met = r.met.sum(b.done(), r.w.s.Now())
		b.Usage = plus(b.Usage, g.usage)
		b.Charge = b.Charge.plus(g.charge)
		return nil
	})
	if err != nil {
		return err
	}
	r.w.s.metrics.committed(g)
	if tail != nil {
		// What stays behind is removed with the others at the end.
		_ = r.w.s.Bucket.Delete(ctx, segmentBlob(r.w.rec.ID, r.head))
	}
	r.head, r.previous = name, previous
	if len(tail)+len(g.text) < maxSegment {
		r.tail = append(tail, g.text...)
	} else {
		r.tail = r.tail[:0]
	}
	return nil
}

// write writes a segment, as soon as the store can: what was answered is kept in memory until then, and no more lines
// are begun than fit beside it.
func (r *results) write(ctx context.Context, name string, parts ...[]byte) error {
	for tries := 1; ; tries++ {
		err := writeBlob(ctx, r.w.s.Bucket, segmentBlob(r.w.rec.ID, name), parts...)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		in := backoff(tries)
		r.w.log.Warn("answers cannot be stored; they are kept in memory meanwhile", zap.Duration("again_in", in),
			zap.Error(err))
		if err := timing.Sleep(ctx, in); err != nil {
			return err
		}
	}
}

// backoff is the pause after so many failures of the job service's own services.
func backoff(failures int) time.Duration {
	return min(50*time.Millisecond<<min(failures, 10), 5*time.Second)
}
