package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
)

// spoolFor is how long what a process has told of its spool holds. It tells it again every second.
const spoolFor = 15 * time.Minute

// noteSpool keeps what a process tells of its spool and other stores, and forgets what others told long ago.
func (l *Ledger) noteSpool(ctx context.Context, r *ledgerv1.SpoolReport) error {
	process := text(r.GetProcess())
	s := l.statement("DELETE FROM spools WHERE at < ")
	s.add(s.arg(l.now().Add(-spoolFor).UnixMicro()), " OR process = ", s.arg(process))
	if _, err := s.exec(ctx, l.write); err != nil {
		return fmt.Errorf("forgetting the state of spools: %w", err)
	}
	if r.GetTrouble() == "" && r.GetStores() == "" {
		return nil
	}
	s = l.statement("INSERT INTO spools (process, at, trouble, dropped, stores) VALUES ")
	s.row(true, []any{process, l.now().UnixMicro(), text(r.GetTrouble()), max(r.GetDropped(), 0), text(r.GetStores())})
	s.add(" ON CONFLICT (process) DO NOTHING") // it was told twice at once
	if _, err := s.exec(ctx, l.write); err != nil {
		return fmt.Errorf("keeping the state of a spool: %w", err)
	}
	return nil
}

// Spools returns what is wrong with spools and other stores, by process.
func (l *Ledger) Spools(ctx context.Context) ([]attention.SpoolTrouble, error) {
	s := l.statement("SELECT process, trouble, dropped, stores FROM spools")
	s.and("at", ">=", l.now().Add(-spoolFor).UnixMicro())
	s.add(" ORDER BY process LIMIT 1000")
	var all []attention.SpoolTrouble
	err := s.each(ctx, l.read, func(rows *sql.Rows) error {
		var t attention.SpoolTrouble
		err := rows.Scan(&t.Process, &t.Trouble, &t.Dropped, &t.Stores)
		all = append(all, t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the state of spools: %w", err)
	}
	return all, nil
}
