package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/limit"
)

// A replayer is a spool that reports when it has shipped the records that it had when it was opened.
type replayer interface {
	Replayed() <-chan struct{}
	Hurry()
}

// seed adds the usage from before this process to the windows of hours and days, once. The records of an earlier
// process in the spool reach the ledger first.
func (s *Server) seed(ctx context.Context, config *exchange.Config) error {
	if s.began.IsZero() {
		return nil
	}
	if spool, ok := s.spool.(replayer); ok {
		spool.Hurry() // the ledger is available: it has just answered
		select {
		case <-spool.Replayed():
		case <-ctx.Done():
			return fmt.Errorf("wait for the ledger to take what the spool held: %w", ctx.Err())
		}
	}
	answers, err := s.ledger.Past(ctx, &ledgerv1.PastRequest{Until: timestamppb.New(s.began),
		Users: config.LimitsUsers()})
	if err != nil {
		return fmt.Errorf("ask what was used: %w", err)
	}
	type counter struct {
		name   string
		window limit.Window
		end    int64
	}
	past := map[counter]limit.Past{} // merged, because the number of keys or models does not make a counter larger
	for {
		some, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("ask what was used: %w", err)
		}
		for _, p := range some.GetPast() {
			for _, of := range config.Past(p, s.env.Names) {
				at := counter{of.Counter, of.Window, of.At.UnixMicro()}
				of.Amount += past[at].Amount
				past[at] = of
			}
		}
	}
	all := make([]limit.Past, 0, len(past))
	for _, of := range past {
		all = append(all, of)
	}
	err = s.env.Limits.Seed(ctx, all)
	if errors.Is(err, limit.ErrStore) {
		return nil // this process counts by itself; the store has its own counters
	}
	if err != nil {
		return fmt.Errorf("tell the limits what was used: %w", err)
	}
	return nil
}
