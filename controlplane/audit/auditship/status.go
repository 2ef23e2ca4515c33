package auditship

import (
	"context"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// Sinks returns how far the audit log was delivered to each sink, by any control plane.
func (s *Service) Sinks(ctx context.Context) ([]adminapi.AuditSinkStatus, error) {
	out := []adminapi.AuditSinkStatus{}
	state, _ := s.options.Plane.State()
	sinks := configstore.All[*configv1.AuditSink](state)
	if len(sinks) == 0 {
		return out, nil
	}
	at, err := s.store.all(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.options.Chain.HeadSequence(ctx)
	if err != nil {
		return nil, err
	}
	for _, sink := range sinks {
		p := at[sink.GetName()]
		status := adminapi.AuditSinkStatus{Name: sink.GetName(), Kind: sink.Kind(), Disabled: sink.GetDisabled(),
			Sequence: p.Sequence, DeliveredAt: p.At, Missing: p.Missing, Error: p.Error, FailingSince: p.Since}
		if status.Backlog, err = s.left(ctx, head, p); err != nil {
			status.Backlog = head // as far as is known while the ledger is unavailable
		}
		out = append(out, status)
	}
	return out, nil
}

// left returns how many entries of the chain are after a position.
func (s *Service) left(ctx context.Context, head int64, at position) (int64, error) {
	switch {
	case at.Sequence > 0:
		return max(0, head-at.Sequence), nil
	case at.ID != "":
		return 0, nil // a new sink begins with the next entry
	}
	oldest, _, err := s.options.Ledger.AuditEnds(ctx)
	return max(0, head-max(0, oldest.Sequence-1)), err
}
