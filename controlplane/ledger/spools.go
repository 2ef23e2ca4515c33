package ledger

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
)

// spoolFor is how long a process's report on its spool holds. The process repeats it every second.
const spoolFor = 15 * time.Minute

var intoSpools = sqldb.NewInsert("spools", "process, at, trouble, dropped, stores, since, stores_since",
	"ON CONFLICT (process) DO NOTHING") // two reports may arrive at once

// noteSpool keeps what a process reports of its spool and other stores, and forgets what others reported long ago.
func (l *writer) noteSpool(ctx context.Context, r *ledgerv1.SpoolReport) error {
	process := text(r.GetProcess())
	s := l.db.Statement("DELETE FROM spools WHERE at < ")
	s.Add(s.Arg(l.db.Now().Add(-spoolFor).UnixMicro()), " OR process = ", s.Arg(process))
	_, err := s.Exec(ctx, l.db.Write)
	if err != nil || r.GetTrouble() == "" && r.GetStores() == "" {
		return doing("forgetting the state of spools", err)
	}
	now := timestamppb.New(l.db.Now()) // a process of a version before does not say since when
	since := func(at *timestamppb.Timestamp) int64 { return cmp.Or(at, now).AsTime().UnixMicro() }
	err = l.db.PutRows(ctx, l.db.Write, intoSpools, [][]any{{process, l.db.Now().UnixMicro(), text(r.GetTrouble()),
		max(r.GetDropped(), 0), text(r.GetStores()), since(r.GetTroubleSince()), since(r.GetStoresSince())}})
	return doing("keeping the state of a spool", err)
}

// Spools returns what is wrong with spools and other stores, by process.
func (l usageReader) Spools(ctx context.Context) ([]attention.SpoolTrouble, error) {
	s := l.db.Statement("SELECT process, trouble, dropped, stores, since, stores_since FROM spools")
	s.And("at", ">=", l.db.Now().Add(-spoolFor).UnixMicro())
	s.Add(" ORDER BY process LIMIT 1000")
	all, err := sqldb.All(ctx, s, l.db.Read, func(t *attention.SpoolTrouble) []any {
		return []any{&t.Process, &t.Trouble, &t.Dropped, &t.Stores, micros(&t.Since), micros(&t.StoresSince)}
	})
	return all, doing("reading the state of spools", err)
}
