package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

const (
	defaultMaxBytes     = 1 << 30
	defaultSegmentBytes = 8 << 20
	// maxWaiting bounds what waits in memory for room on the disk.
	maxWaiting = 8 << 20
	// syncEvery is how much a loss of power can take.
	syncEvery = time.Second
)

// SpoolOptions are those of [OpenSpool].
type SpoolOptions struct {
	// Dir is the folder, which is made where there is none. No other process may use it.
	Dir string
	// MaxBytes bounds the folder. Default 1 GiB.
	MaxBytes int64
	// SegmentBytes is how large a file gets. Default 8 MiB.
	SegmentBytes int64
	// Log is required.
	Log *zap.Logger
	// Registerer, where it is not nil, gets the metrics.
	Registerer prometheus.Registerer
}

// A DiskSpool is a [Spool] in a folder.
//
// What Begin and End are given has reached the operating system when they return, so that it outlives the process
// however that ends. It is synced to the disk about once a second: the loss of power can cost what the last second
// brought.
//
// Where the disk, or the folder's bound, is full, up to 8 MiB wait in memory until there is room, and what is beyond
// that is counted as dropped. What was kept is never dropped for what is newer.
type DiskSpool struct {
	options SpoolOptions
	lock    *os.File
	metrics *spoolMetrics
	wake    chan struct{}
	hurry   chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup
	buffers sync.Pool

	mu       sync.Mutex // guards what follows
	segments []*segment // ascending; the last is written to
	retired  []*os.File // were written to, and are to be synced
	bytes    int64      // of all segments
	open     map[string]place
	shipped  place // everything before it is acknowledged
	backlog  int   // ends that are not
	waiting  []byte
	trouble  error // why something waits
	lost     int   // dropped since then
	closed   bool

	replay   place         // where it ended when it was opened
	replayed chan struct{} // closed when all before that is acknowledged

	position *os.File // where shipped is kept; only Run writes it
}

// A place is where a frame is. Segments are numbered without gaps that matter.
type place struct {
	segment uint64
	offset  int64
}

// Replayed returns a channel that is closed once the ledger has acknowledged all that the spool held when it was
// opened.
func (s *DiskSpool) Replayed() <-chan struct{} { return s.replayed }

// Hurry has what the spool holds shipped now, also where the ledger was away a moment ago.
func (s *DiskSpool) Hurry() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

// checkReplayed closes the channel when it is time. The spool is locked.
func (s *DiskSpool) checkReplayed() {
	behind := s.shipped.segment < s.replay.segment || s.shipped.segment == s.replay.segment &&
		s.shipped.offset < s.replay.offset
	if s.backlog > 0 && behind {
		return
	}
	select {
	case <-s.replayed:
	default:
		close(s.replayed)
	}
}

// Begin implements [Spool].
func (s *DiskSpool) Begin(r *ledgerv1.Record) { s.append(kindBegin, r) }

// End implements [Spool].
func (s *DiskSpool) End(r *ledgerv1.Record) { s.append(kindEnd, r) }

func (s *DiskSpool) append(kind byte, r *ledgerv1.Record) {
	b, _ := s.buffers.Get().(*[]byte)
	if b == nil {
		b = new([]byte)
	}
	*b = appendFrame((*b)[:0], kind, r)
	defer s.buffers.Put(b)

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || r.GetId() == "" {
		s.metrics.dropped.Inc()
		s.options.Log.Error("a record for the ledger was dropped: it has no id, or the spool is closed",
			zap.Bool("closed", s.closed))
		return
	}
	if len(s.waiting) == 0 {
		if err := s.write(*b, r.GetId(), s.options.MaxBytes); err != nil {
			s.wait(*b, err)
		}
		return
	}
	s.wait(*b, s.trouble)
}

// wait keeps a frame in memory, in the order in which they came.
func (s *DiskSpool) wait(frame []byte, why error) {
	if s.trouble == nil {
		s.options.Log.Error("records for the ledger cannot be written to disk and wait in memory", zap.Error(why))
	}
	s.trouble = why
	if len(s.waiting)+len(frame) > maxWaiting {
		if s.lost++; s.lost == 1 {
			s.options.Log.Error("records for the ledger are dropped: neither the disk nor the memory has room")
		}
		s.metrics.dropped.Inc()
		return
	}
	s.waiting = append(s.waiting, frame...)
}

// writeWaiting writes what waits.
func (s *DiskSpool) writeWaiting() {
	if len(s.waiting) == 0 {
		return
	}
	for len(s.waiting) > 0 {
		n, _ := frameLength(s.waiting)
		id := frame{payload: s.waiting[frameHeader:n]}.id()
		if s.trouble = s.write(s.waiting[:n], id, s.options.MaxBytes); s.trouble != nil {
			return
		}
		s.waiting = s.waiting[n:]
	}
	s.options.Log.Info("records for the ledger are written to disk again", zap.Int("dropped", s.lost))
	s.waiting, s.lost = nil, 0
}

var errSpoolFull = errors.New("the spool has reached its bound")

// write writes the frame of the record with an id at the end of the last segment, and keeps account of what was begun
// and what has ended.
func (s *DiskSpool) write(data []byte, id string, bound int64) error {
	if s.bytes+int64(len(data)) > bound {
		return errSpoolFull
	}
	last := s.last()
	if last == nil || last.size+int64(len(data)) > s.options.SegmentBytes {
		if err := s.rotate(); err != nil {
			return err
		}
		last = s.last()
	}
	seal(last.salt, data)
	if err := last.put(data, bound-s.bytes+last.size); err != nil {
		return fmt.Errorf("writing to the spool: %w", err)
	}
	last.dirty = true
	s.note(data[8], id, place{last.number, last.size})
	last.size += int64(len(data))
	s.bytes += int64(len(data))
	if s.backlog >= shipRecords {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// note keeps account of the frame of a kind, of the record with an id, that is at a place.
func (s *DiskSpool) note(kind byte, id string, at place) {
	switch kind {
	case kindBegin:
		s.open[id] = at
	case kindEnd:
		delete(s.open, id)
		s.backlog++
	}
}

func (s *DiskSpool) last() *segment {
	if len(s.segments) == 0 || s.segments[len(s.segments)-1].file == nil {
		return nil
	}
	return s.segments[len(s.segments)-1]
}

// rotate begins a new segment.
func (s *DiskSpool) rotate() error {
	number := s.shipped.segment
	if n := len(s.segments); n > 0 {
		number = max(number, s.segments[n-1].number)
	}
	next, err := createSegment(s.options.Dir, number+1, s.options.SegmentBytes)
	if err != nil {
		return err
	}
	if last := s.last(); last != nil {
		s.retire(last)
	}
	s.segments = append(s.segments, next)
	s.bytes += next.size
	return nil
}

// retire ends the writing to the last segment.
func (s *DiskSpool) retire(last *segment) {
	last.unmap()
	s.retired = append(s.retired, last.file)
	last.file = nil
}

// Run implements [Spool].
func (s *DiskSpool) Run(ctx context.Context, ledger ledgerv1.LedgerClient) {
	ship(ctx, ledger, s, s.wake, s.hurry, s.metrics, s.options.Log)
}

// keep syncs, and tries again what could not be written.
func (s *DiskSpool) keep() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.tidy()
			s.sync()
		case <-s.stop:
			return
		}
	}
}

func (s *DiskSpool) sync() {
	s.mu.Lock()
	s.writeWaiting()
	retired := s.retired
	s.retired = nil
	var active *os.File
	if last := s.last(); last != nil && last.dirty {
		active, last.dirty = last.file, false
	}
	s.mu.Unlock()

	var err error
	for _, f := range retired {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if active != nil { // it may be retired by now, but only the next sync closes it
		err = errors.Join(err, active.Sync())
	}
	if err != nil {
		s.options.Log.Error("syncing the spool of the ledger", zap.Error(err))
	}
}

// Close implements [Spool].
func (s *DiskSpool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	close(s.stop)
	s.stopped.Wait()
	s.sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.waiting); n > 0 {
		s.options.Log.Error("records for the ledger are lost: there was no room on the disk", zap.Int("bytes", n))
	}
	var err error
	if last := s.last(); last != nil {
		last.unmap()
		err = last.file.Close()
		last.file = nil
	}
	return errors.Join(err, s.position.Close(), s.lock.Close())
}
