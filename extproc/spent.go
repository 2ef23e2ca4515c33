package extproc

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/limit"
)

const (
	// spentEvery is the interval at which the ledger is asked for spending, and spentTimeout bounds each call.
	spentEvery   = 5 * time.Second
	spentTimeout = 10 * time.Second
	// firstTimeout is how long requests wait for the first answer after a start. After that answer they wait at most
	// spentTimeout until windows have the earlier usage. That is tried every seedEvery.
	firstTimeout = 2 * time.Second
	seedEvery    = 250 * time.Millisecond
	// minPartialAnswer is the minimum number of subjects in a partial answer.
	minPartialAnswer = 10_000
)

// spentBook has the ledger's spending of each subject, in nano-dollars. It belongs to one goroutine.
type spentBook struct {
	cursor string
	known  map[string]spent
	config *exchange.Config // under which all of known was raised
	more   bool             // the last answer was partial
	seeded bool             // windows of hours and days have the earlier usage
}

type spent struct {
	at         time.Time
	day, month int64
}

// followSpent raises the counters of budgets to the spending in the ledger, until ctx ends. The ledger includes other
// replicas and the time before this process.
func (s *Server) followSpent(ctx context.Context) {
	b := &spentBook{known: map[string]spent{}}
	pause := time.NewTimer(0)
	defer pause.Stop()
	failing := false
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		err := s.raiseSpent(ctx, b)
		if err != nil && !failing && ctx.Err() == nil {
			s.log.Warn("the ledger does not say what was spent; budgets and windows go by what this process knows",
				zap.Error(err))
		}
		failing = err != nil
		pause.Reset(spentEvery)
		if err != nil && !b.seeded {
			pause.Reset(seedEvery)
		}
		if b.more && err == nil {
			pause.Reset(0)
		}
		if b.config == nil && err == nil {
			pause.Reset(spentEvery / 500) // there is no configuration yet, only for a moment
		}
	}
}

func (s *Server) raiseSpent(ctx context.Context, b *spentBook) error {
	config := s.config.current.Load()
	if config == nil {
		return nil // nobody is served yet
	}
	timeout := spentTimeout
	if !s.ledgerAsked.Load() {
		defer s.ledgerAsked.Store(true) // also if the ledger is not available: traffic does not wait for it
		timeout = firstTimeout
	}
	seeding, cancel := context.WithTimeout(ctx, spentTimeout)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := s.ledger.Spent(ctx, &ledgerv1.SpentRequest{Cursor: b.cursor})
	if err != nil {
		return err
	}
	changed := b.take(answer)
	b.more = len(changed) >= minPartialAnswer
	if b.config != config {
		changed = b.known // a budget may be new
	}
	var away error // the other budgets are raised anyway
	for subject, of := range changed {
		for _, budget := range budgetsOf(config, subject) {
			switch err := s.raise(ctx, subject, budget, of); {
			case errors.Is(err, limit.ErrStore):
				away = err
			case err != nil:
				return err
			}
		}
	}
	if away != nil {
		return away
	}
	b.cursor, b.config = answer.GetCursor(), config
	if b.seeded {
		return nil
	}
	err = s.seed(seeding, config)
	b.seeded = err == nil
	return err
}

// take stores an answer, removes earlier months, and returns the spending in the answer.
func (b *spentBook) take(answer *ledgerv1.SpentAnswer) map[string]spent {
	changed := make(map[string]spent, len(answer.GetSpent()))
	for _, of := range answer.GetSpent() {
		changed[of.GetSubject()] = spent{of.GetAt().AsTime(), of.GetDayNanoUsd(), of.GetMonthNanoUsd()}
	}
	month := time.Now().UTC().Month()
	for subject, of := range b.known {
		if of.at.Month() != month {
			delete(b.known, subject)
		}
	}
	for subject, of := range changed {
		b.known[subject] = of
	}
	return changed
}

func (s *Server) raise(ctx context.Context, subject string, b *configv1.Budget, of spent) error {
	counter, window := access.BudgetCounter(subject, b.GetUnit())
	switch window {
	case limit.CalendarDay:
		return s.env.Limits.Raise(ctx, counter, window, of.at, of.day)
	case limit.CalendarMonth:
		return s.env.Limits.Raise(ctx, counter, window, of.at, of.month)
	}
	return nil
}

// budgetsOf returns the budgets of a subject.
func budgetsOf(c *exchange.Config, subject string) []*configv1.Budget {
	kind, name, _ := strings.Cut(subject, "/")
	switch kind {
	case "key":
		if k := c.Keyring.ByName(name); k != nil {
			return k.Budgets
		}
	case "organization":
		return c.Organizations[name].GetBudgets()
	case "project":
		return c.Projects[name].GetBudgets()
	}
	return nil
}
