package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
)

// spoolFor is how long a process's report on its spool holds. The process repeats it every second.
const spoolFor = 15 * time.Minute

// noteSpool keeps what a process tells of its spool and other stores, and forgets what others told long ago.
func (l *writer) noteSpool(ctx context.Context, r *ledgerv1.SpoolReport) error {
	process := text(r.GetProcess())
	s := l.db.Statement("DELETE FROM spools WHERE at < ")
	s.Add(s.Arg(l.db.Now().Add(-spoolFor).UnixMicro()), " OR process = ", s.Arg(process))
	if _, err := s.Exec(ctx, l.db.Write); err != nil {
		return fmt.Errorf("forgetting the state of spools: %w", err)
	}
	if r.GetTrouble() == "" && r.GetStores() == "" {
		return nil
	}
	s = l.db.Statement("INSERT INTO spools (process, at, trouble, dropped, stores) VALUES ")
	s.Row(true, []any{process, l.db.Now().UnixMicro(), text(r.GetTrouble()), max(r.GetDropped(), 0), text(r.GetStores())})
	s.Add(" ON CONFLICT (process) DO NOTHING") // two reports may arrive at once
	if _, err := s.Exec(ctx, l.db.Write); err != nil {
		return fmt.Errorf("keeping the state of a spool: %w", err)
	}
	return nil
}

// Spools returns what is wrong with spools and other stores, by process.
func (l usageReader) Spools(ctx context.Context) ([]attention.SpoolTrouble, error) {
	s := l.db.Statement("SELECT process, trouble, dropped, stores FROM spools")
	s.And("at", ">=", l.db.Now().Add(-spoolFor).UnixMicro())
	s.Add(" ORDER BY process LIMIT 1000")
	var all []attention.SpoolTrouble
	err := s.Each(ctx, l.db.Read, func(rows *sql.Rows) error {
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
