package usage

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// maxInMemory is how many records a MemorySpool holds at most: some 50 MB.
const maxInMemory = 100_000

// A MemorySpool is a [Spool] without a folder: what was not shipped is lost when the process is killed, and what begins and does
// not end is never shipped.
type MemorySpool struct {
	log     *zap.Logger
	metrics *spoolMetrics
	wake    chan struct{}

	mu    sync.Mutex // guards ended
	ended []*ledgerv1.Record
}

// NewMemorySpool makes a spool for where no folder is given. A registerer that is not nil gets its metrics.
func NewMemorySpool(log *zap.Logger, r prometheus.Registerer) (*MemorySpool, error) {
	s := &MemorySpool{log: log, wake: make(chan struct{}, 1)}
	var err error
	s.metrics, err = newSpoolMetrics(r, s.state)
	return s, err
}

// Begin implements [Spool].
func (s *MemorySpool) Begin(*ledgerv1.Record) {}

// End implements [Spool].
func (s *MemorySpool) End(r *ledgerv1.Record) {
	r = proto.CloneOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) >= maxInMemory {
		s.metrics.dropped.Inc()
		return
	}
	s.ended = append(s.ended, r)
	if len(s.ended) >= shipRecords {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Run implements [Spool].
func (s *MemorySpool) Run(ctx context.Context, ledger ledgerv1.LedgerClient) {
	ship(ctx, ledger, s, s.wake, s.metrics, s.log)
}

// next implements source.
func (s *MemorySpool) next() ([]*ledgerv1.Record, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	records := s.ended[:min(len(s.ended), shipRecords)]
	return records, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append([]*ledgerv1.Record(nil), s.ended[len(records):]...)
	}, nil
}

func (s *MemorySpool) state() spoolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return spoolState{records: len(s.ended)}
}

// Close implements [Spool].
func (s *MemorySpool) Close() error {
	if n := s.state().records; n > 0 {
		s.log.Error("records for the ledger are lost: they were not shipped", zap.Int("records", n))
	}
	return nil
}
