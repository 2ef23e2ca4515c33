package ledger

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// A Retention is how long things are kept.
type Retention struct {
	// Exchanges, of which queries by user or by minute are answered. Default 30 days. A record that is sent again later
	// than that counts again.
	Exchanges time.Duration
	// Aggregates, of which all others are answered. Default 400 days.
	Aggregates time.Duration
	// Audit entries. Default 400 days.
	Audit time.Duration
}

const (
	defaultExchanges  = 30 * 24 * time.Hour
	defaultAggregates = 400 * 24 * time.Hour
	// keepSpent is longer than the month that anybody asks of.
	keepSpent = 62 * 24 * time.Hour
	// migrateEvery is how often Maintain tries to bring the tables up to date.
	migrateEvery = 2 * time.Second
	// idle connections are kept for what comes next.
	idle = 4
	// pruneEvery is how often Maintain prunes.
	pruneEvery = time.Hour
	// pruneAtOnce bounds a transaction that prunes, so that records do not wait for it.
	pruneAtOnce = 2000
)

// Prune deletes what is older than it is to be kept, some rows at a time, and returns how many it has deleted.
func (l *Ledger) Prune(ctx context.Context, keep Retention) (int64, error) {
	now := l.now()
	before := func(keep, usual time.Duration) time.Time {
		if keep <= 0 {
			keep = usual
		}
		return now.Add(-keep)
	}
	exchanges, aggregates, audit := before(keep.Exchanges, defaultExchanges), before(keep.Aggregates,
		defaultAggregates), before(keep.Audit, defaultAggregates)
	conditions := []func(*statement){
		func(s *statement) { s.and("at", "<", exchanges.UnixMicro()) },
		func(s *statement) { s.and("at", "<", audit.UnixMicro()) },
		func(s *statement) { s.and("start", "<", now.Add(-keepSpent).Unix()) },
	}
	tables := []string{"exchanges", "audit", "spent"}
	for level := range levels { // as their index has them
		tables = append(tables, "aggregates")
		conditions = append(conditions, func(s *statement) {
			s.and("level", "=", level)
			s.and("start", "<", aggregates.Unix())
		})
	}
	total := int64(0)
	for i, table := range tables {
		n, err := l.pruneTable(ctx, table, conditions[i])
		total += n
		if err != nil {
			return total, fmt.Errorf("pruning %s: %w", table, err)
		}
	}
	return total, nil
}

func (l *Ledger) pruneTable(ctx context.Context, table string, condition func(*statement)) (total int64, err error) {
	row := "rowid"
	if l.postgres {
		row = "ctid"
	}
	for {
		s := l.statement("DELETE FROM ", table, " WHERE ", row, " IN (SELECT ", row, " FROM ", table)
		condition(s)
		s.add(" LIMIT ", s.arg(pruneAtOnce), ")")
		n, err := s.exec(ctx, l.write)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

// Maintain brings the tables up to date, where that could not be done when the ledger was opened, and prunes once an
// hour until ctx ends.
func (l *Ledger) Maintain(ctx context.Context, keep Retention) {
	l.catchUp(ctx)
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		n, err := l.Prune(ctx, keep)
		switch {
		case err != nil && ctx.Err() == nil:
			l.log.Warn("pruning the ledger", zap.Error(err))
		case n > 0:
			l.log.Info("pruned the ledger", zap.Int64("rows", n))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// catchUp brings the tables up to date as soon as the database can be reached.
func (l *Ledger) catchUp(ctx context.Context) {
	tick := time.NewTicker(migrateEvery)
	defer tick.Stop()
	for l.outdated {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !l.postgres { // a connection would go on with the file that was there before
			l.write.SetMaxIdleConns(0)
			l.read.SetMaxIdleConns(0)
		}
		err := l.migrate(ctx)
		l.write.SetMaxIdleConns(idle)
		l.read.SetMaxIdleConns(idle)
		switch {
		case err == nil:
			l.outdated = false
			l.trouble.Store(nil)
			l.log.Info("the ledger's database can be used")
		case !isAway(err) && ctx.Err() == nil && err.Error() != l.Ready().Error():
			l.log.Error("the ledger cannot be used", zap.String("file", l.file), zap.Error(err))
			l.trouble.Store(&err)
		}
	}
}
