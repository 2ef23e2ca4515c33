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
	// maxWaiting bounds the frames in memory that wait for disk space.
	maxWaiting = 8 << 20
	// syncEvery bounds the loss at a power failure.
	syncEvery = time.Second
)

// SpoolOptions are the options of [OpenSpool].
type SpoolOptions struct {
	// Dir is the folder. It is made if necessary. No other process may use it.
	Dir string
	// Process names who ships the records.
	Process string
	// MaxBytes bounds the folder. Default 1 GiB.
	MaxBytes int64
	// SegmentBytes is the maximum size of a file. Default 8 MiB.
	SegmentBytes int64
	// Stores returns the text for the ledger about stores that the process cannot use; it may be nil.
	Stores func() string
	// Log is required.
	Log *zap.Logger
	// Registerer registers the metrics; it may be nil.
	Registerer prometheus.Registerer
}

// A DiskSpool is a [Spool] in a folder.
//
// When Begin and End return, the record has reached the operating system, so that it survives any end of the process.
// It is synced to the disk about once a second: a power failure can lose the last second.
//
// If the disk is full, or the folder has reached its bound, up to 8 MiB wait in memory. Further records are dropped
// and counted. Older records are never dropped for newer ones.
type DiskSpool struct {
	options SpoolOptions
	lock    *os.File
	metrics *spoolMetrics
	wake    chan struct{}
	hurry   chan struct{}
	stop    chan struct{}
	stopped sync.WaitGroup
	buffers sync.Pool

	mu       sync.Mutex // guards the fields below
	segments []*segment // ascending; the last one is written
	retired  []*os.File // complete, but not synced yet
	bytes    int64      // of all segments
	open     map[string]place
	shipped  place // everything before it is acknowledged
	backlog  int   // ended records that are not acknowledged
	waiting  []byte
	trouble  error // why frames wait
	lost     int   // records dropped since then
	closed   bool

	dropped   int64 // records, in all
	droppedAt time.Time
	reported  bool // that something is wrong
	// troubled and storeless are since when the spool, and a store, have trouble; zero: they have none.
	troubled, storeless time.Time

	replay   place         // the end of the spool when it was opened
	replayed chan struct{} // closed when everything before replay is acknowledged

	position *os.File // the file of shipped; only Run writes it
}

// A place is the position of a frame. Gaps between the numbers of segments have no meaning.
type place struct {
	segment uint64
	offset  int64
}

// Replayed returns a channel that is closed when the ledger has acknowledged all records that the spool had when it
// was opened.
func (s *DiskSpool) Replayed() <-chan struct{} { return s.replayed }

// Hurry ships the records now, even if the ledger was not available a moment ago.
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
		s.drop()
		s.options.Log.Error("a record for the ledger was dropped: it has no id, or the spool is closed",
			zap.Bool("closed", s.closed))
		return
	}
	if len(s.waiting) == 0 {
		if err := s.write(*b, r.GetId(), r.GetExchange(), s.options.MaxBytes); err != nil {
			s.wait(*b, err)
		}
		return
	}
	s.wait(*b, s.trouble)
}

// wait keeps a frame in memory, in order.
func (s *DiskSpool) wait(frame []byte, why error) {
	if s.troubled.IsZero() {
		s.troubled = time.Now()
	}
	if s.trouble == nil {
		s.options.Log.Error("records for the ledger cannot be written to disk and wait in memory", zap.Error(why))
	}
	s.trouble = why
	if len(s.waiting)+len(frame) > maxWaiting {
		if s.lost++; s.lost == 1 {
			s.options.Log.Error("records for the ledger are dropped: neither the disk nor the memory has room")
		}
		s.drop()
		return
	}
	s.waiting = append(s.waiting, frame...)
}

// drop counts a record that is not kept.
func (s *DiskSpool) drop() {
	s.metrics.dropped.Inc()
	s.dropped, s.droppedAt = s.dropped+1, time.Now()
}

// writeWaiting writes the waiting frames.
func (s *DiskSpool) writeWaiting() {
	if len(s.waiting) == 0 {
		return
	}
	for len(s.waiting) > 0 {
		n, _ := frameLength(s.waiting)
		f := frame{payload: s.waiting[frameHeader:n]}
		if s.trouble = s.write(s.waiting[:n], f.id(), f.exchange(), s.options.MaxBytes); s.trouble != nil {
			return
		}
		s.waiting = s.waiting[n:]
	}
	s.options.Log.Info("records for the ledger are written to disk again", zap.Int("dropped", s.lost))
	s.waiting, s.lost = nil, 0
}

var errSpoolFull = errors.New("the spool has reached its bound")

// write appends the frame of the record with an id to the last segment, and tracks which records have begun and ended.
// If a record ends that has begun with another id, exchange is that id.
func (s *DiskSpool) write(data []byte, id, exchange string, bound int64) error {
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
	s.note(data[8], id, exchange, place{last.number, last.size})
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

// note tracks a frame at a place, by its kind and the ids of its record.
func (s *DiskSpool) note(kind byte, id, exchange string, at place) {
	switch kind {
	case kindBegin:
		s.open[id] = at
	case kindEnd:
		delete(s.open, id)
		if exchange != "" {
			delete(s.open, exchange)
		}
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

// retire closes the last segment for writing.
func (s *DiskSpool) retire(last *segment) {
	last.unmap()
	s.retired = append(s.retired, last.file)
	last.file = nil
}

// Run implements [Spool].
func (s *DiskSpool) Run(ctx context.Context, ledger ledgerv1.LedgerClient) {
	ship(ctx, ledger, s, s.wake, s.hurry, s.metrics, s.options.Log)
}

// keep syncs the files, and writes waiting frames.
func (s *DiskSpool) keep() {
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.tidy()
			s.sync()
			s.watchStores()
		case <-s.stop:
			return
		}
	}
}

// watchStores notes since when a store has trouble, also while nothing can be reported.
func (s *DiskSpool) watchStores() string {
	says := ""
	if s.options.Stores != nil {
		says = s.options.Stores()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case says == "":
		s.storeless = time.Time{}
	case s.storeless.IsZero():
		s.storeless = time.Now()
	}
	return says
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
	if active != nil { // it may be retired now, but only the next sync closes it
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
