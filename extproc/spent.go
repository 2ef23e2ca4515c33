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
	// spentEvery is how often the ledger is asked what was spent, and spentTimeout how long it may take to say.
	spentEvery   = 5 * time.Second
	spentTimeout = 10 * time.Second
	// firstTimeout is how long requests wait for its first answer after a start. Where it has come, they wait for
	// spentTimeout at most until windows count what was used before, and then seedEvery is how soon that is tried again.
	firstTimeout = 2 * time.Second
	seedEvery    = 250 * time.Millisecond
	// manySpent is how many subjects an answer has at least that is a part of what there is.
	manySpent = 10_000
)

// spentBook is what the ledger has said of each subject, in nano-dollars. It belongs to one goroutine.
type spentBook struct {
	cursor string
	known  map[string]spent
	config *exchange.Config // that all of known was raised under
	more   bool             // the last answer was a part
	seeded bool             // windows of hours and days count what was used before
}

type spent struct {
	at         time.Time
	day, month int64
}

// followSpent keeps the counters of budgets at what the ledger knows to have been spent, also by other replicas and
// before this process began, until ctx ends.
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
			pause.Reset(spentEvery / 500) // no configuration has come yet, which is a matter of moments
		}
	}
}

func (s *Server) raiseSpent(ctx context.Context, b *spentBook) error {
	config := s.config.current.Load()
	if config == nil {
		return nil // nobody is served yet
	}
	timeout := spentTimeout
	if !s.informed.Load() {
		defer s.informed.Store(true) // also where the ledger is away: traffic does not wait for it
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
	b.more = len(changed) >= manySpent
	if b.config != config {
		changed = b.known // a budget may be new
	}
	var away error // the others are counted here all the same
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

// take notes an answer, forgets what is of an earlier month, and returns what the answer says.
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

// budgetsOf returns the budgets of a subject of the ledger's.
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
