package ledger

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
)

type service struct {
	ledgerv1.UnimplementedLedgerServer
	ledger *Ledger
}

// NewService returns the gRPC service of a ledger. Whoever may call it may write records and read everybody's usage:
// it belongs behind mutual TLS.
func NewService(l *Ledger) ledgerv1.LedgerServer { return &service{ledger: l} }

// Record implements [ledgerv1.LedgerServer].
func (s *service) Record(ctx context.Context, r *ledgerv1.RecordRequest) (*ledgerv1.RecordAnswer, error) {
	if report := r.GetSpool(); report != nil {
		if err := s.ledger.noteSpool(ctx, report); err != nil {
			return nil, s.unavailable(ctx, err)
		}
	}
	if err := s.ledger.Record(ctx, r.GetRecords()); err != nil {
		return nil, s.unavailable(ctx, err)
	}
	return &ledgerv1.RecordAnswer{}, nil
}

// Spent implements [ledgerv1.LedgerServer].
func (s *service) Spent(ctx context.Context, r *ledgerv1.SpentRequest) (*ledgerv1.SpentAnswer, error) {
	answer, err := s.ledger.Spent(ctx, r.GetCursor())
	if err != nil {
		return nil, s.unavailable(ctx, err)
	}
	return answer, nil
}

// Usage implements [ledgerv1.LedgerServer].
func (s *service) Usage(ctx context.Context, r *ledgerv1.UsageRequest) (*ledgerv1.UsageAnswer, error) {
	body, err := s.usage(ctx, r)
	if err == nil {
		return &ledgerv1.UsageAnswer{Status: http.StatusOK, Body: body}, nil
	}
	e := asClientError(err)
	if e.Status >= http.StatusInternalServerError {
		return nil, s.unavailable(ctx, err)
	}
	return &ledgerv1.UsageAnswer{Status: uint32(e.Status), Body: e.AppendJSON(nil)}, nil
}

func (s *service) usage(ctx context.Context, r *ledgerv1.UsageRequest) ([]byte, error) {
	may := Restriction{Organization: r.GetOrganization(), Project: r.GetProject(), Key: r.GetKey()}
	if r.GetAll() {
		may = Restriction{}
	} else if may == (Restriction{}) || may.Organization == "" && may.Key == "" {
		return nil, openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation.")
	}
	return s.ledger.Usage(ctx, r.GetResource(), r.GetQuery(), may)
}

// unavailable logs an error, and returns the caller's, who will try again.
func (s *service) unavailable(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		s.ledger.unserved.Inc()
		s.ledger.log.Error("the ledger cannot serve", zap.String("file", s.ledger.db.File), zap.Error(err))
	}
	return status.Error(codes.Unavailable, "the ledger cannot serve")
}

// Register registers the metrics of the ledger and of its connections to the conn, once.
func (l *Ledger) Register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{l.unserved, collectors.NewDBStatsCollector(l.db.Write, "ledger")} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the ledger: %w", err)
		}
	}
	return nil
}

func newUnserved() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_ledger_unserved_total",
		Help: "Calls of the data plane and the job service that the ledger could not serve. They are made again: nothing is lost by that."})
}
