package usage

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

const (
	// shipRecords and shipBytes bound one shipment; shipEvery is how long a record waits for others.
	shipRecords = 1000
	shipBytes   = 1 << 20
	shipEvery   = time.Second

	shipTimeout  = 15 * time.Second
	flushTimeout = 3 * time.Second
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 15 * time.Second

	// toldFor is how long dropped records are reported.
	toldFor = 15 * time.Minute
)

// A source has the records to ship. Only one goroutine ships.
type source interface {
	// next returns the oldest records that are not acknowledged, and the function that acknowledges them. It returns no
	// records if there are none.
	next() (records []*ledgerv1.Record, acknowledged func(), err error)
	// report returns the troubles of the spool and other stores, and a function to call once they were reported. It
	// returns nil if there are none, and that was reported.
	report() (r *ledgerv1.SpoolReport, told func())
}

// ship ships records until ctx ends, and then for flushTimeout more. The channel wake ends a wait for records, and
// hurry also a wait after a failure.
func ship(ctx context.Context, ledger ledgerv1.LedgerClient, from source, wake, hurry <-chan struct{}, m *spoolMetrics,
	log *zap.Logger) {
	backoff := time.Duration(0)
	for ctx.Err() == nil {
		err := shipAll(ctx, ledger, from, m)
		pause, woken := shipEvery, wake
		switch {
		case err == nil && backoff > 0:
			log.Info("the ledger takes records again")
			backoff = 0
		case err != nil && ctx.Err() == nil:
			if backoff == 0 {
				log.Warn("the ledger takes no records; they are kept until it does", zap.Error(err))
			}
			backoff = min(max(2*backoff, firstBackoff), maxBackoff)
			pause, woken = backoff/2+rand.N(backoff/2), nil
		}
		select {
		case <-time.After(pause):
		case <-woken:
		case <-hurry:
		case <-ctx.Done():
		}
	}
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if err := shipAll(rest, ledger, from, m); err != nil {
		log.Warn("not all records were shipped to the ledger; what is on disk is shipped after the next start",
			zap.Error(err))
	}
}

func shipAll(ctx context.Context, ledger ledgerv1.LedgerClient, from source, m *spoolMetrics) error {
	for {
		records, acknowledged, err := from.next()
		if err != nil {
			return err
		}
		report, told := from.report()
		if len(records) > 0 || report != nil {
			if err := record(ctx, ledger, &ledgerv1.RecordRequest{Records: records, Spool: report}); err != nil {
				return err
			}
			told()
			m.shipped.Add(float64(len(records)))
		}
		acknowledged()
		if len(records) == 0 {
			return nil
		}
	}
}

func record(ctx context.Context, ledger ledgerv1.LedgerClient, r *ledgerv1.RecordRequest) error {
	ctx, cancel := context.WithTimeout(ctx, shipTimeout)
	defer cancel()
	_, err := ledger.Record(ctx, r)
	return err
}

// report implements source. Dropped records are reported for a while.
func (s *DiskSpool) report() (*ledgerv1.SpoolReport, func()) {
	stores := s.watchStores()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &ledgerv1.SpoolReport{Process: s.options.Process, Dropped: s.dropped, Stores: stores}
	switch {
	case s.trouble != nil:
		r.Trouble = s.trouble.Error()
	case s.dropped > 0 && time.Since(s.droppedAt) < toldFor:
		r.Trouble = "records were dropped"
	default:
		s.troubled = time.Time{}
		if r.Stores == "" && !s.reported {
			return nil, func() {}
		}
	}
	if r.Trouble != "" {
		r.TroubleSince = timestamppb.New(cmp.Or(s.troubled, s.droppedAt))
	}
	if r.Stores != "" {
		r.StoresSince = timestamppb.New(s.storeless)
	}
	return r, func() {
		s.mu.Lock()
		s.reported = r.Trouble != "" || r.Stores != ""
		s.mu.Unlock()
	}
}

// next implements source.
func (s *DiskSpool) next() ([]*ledgerv1.Record, func(), error) {
	var records []*ledgerv1.Record
	s.mu.Lock()
	from := s.shipped
	s.mu.Unlock()
	at := from
	for {
		g, more := s.segmentAt(&at)
		if !more {
			break
		}
		found, n, err := readEnds(g, at.offset, shipRecords)
		if err != nil {
			return nil, nil, err
		}
		at.offset += n
		if records = append(records, found...); len(records) > 0 {
			break
		}
	}
	return records, func() { s.acknowledge(at, at != from, len(records)) }, nil
}

// segmentAt returns the segment that contains a place, and whether there is something to read. If the place is at the
// end of a segment, it moves to the beginning of the next one.
func (s *DiskSpool) segmentAt(at *place) (segment, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.segments {
		if g.number > at.segment {
			*at = place{g.number, int64(segmentHeader)}
		}
		if g.number == at.segment && at.offset < g.size {
			return *g, true
		}
	}
	return segment{}, false
}

// readEnds reads at most most ended records from an offset of a segment, and returns the number of bytes read.
func readEnds(g segment, offset int64, most int) (records []*ledgerv1.Record, n int64, err error) {
	f, err := os.Open(g.path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data := make([]byte, min(g.size-offset, shipBytes))
	if _, err := f.ReadAt(data, offset); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	all := offset+int64(len(data)) == g.size
	for len(data) > 0 && len(records) < most {
		read, length := readFrame(g.salt, data, all)
		if length == 0 {
			break
		}
		data, n = data[length:], n+int64(length)
		if read.payload == nil || read.kind != kindEnd {
			continue
		}
		r := &ledgerv1.Record{}
		if proto.Unmarshal(read.payload, r) == nil {
			records = append(records, r)
		}
	}
	return records, n, nil
}

// acknowledge records that the ledger has everything before a place.
func (s *DiskSpool) acknowledge(to place, moved bool, records int) {
	if !moved {
		return
	}
	if err := writePosition(s.position, to); err != nil {
		// After a restart the records are shipped again, and the ledger ignores them.
		s.options.Log.Warn("writing the position of the spool", zap.Error(err))
	}
	s.mu.Lock()
	s.shipped = to
	s.backlog -= records
	s.checkReplayed()
	s.mu.Unlock()
	s.tidy()
}
