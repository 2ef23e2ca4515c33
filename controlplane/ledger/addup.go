package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// foldRows is how many records of this process wait for the sums at most, and foldEvery how long they wait while
	// others come.
	foldRows  = 10_000
	foldEvery = time.Second
	// foldBatches is how many batches a transaction adds to the sums.
	foldBatches = 200
)

// A folder adds the records that are kept to the sums. It does so later than they are kept, so that many records add
// to a row of sums at once, and before a sum is read. A batch of records waits in the table unfolded, and the
// transaction that adds it deletes it there: it counts once, whichever process adds it.
type folder struct {
	db   *sqldb.DB
	turn chan struct{} // who adds; it holds one

	guard   sync.Mutex
	waiting map[string][]row // by the batch: what this process has kept, so that it need not read it
	rows    int              // of them
	last    time.Time        // when it was added up last
}

func newFolder(db *sqldb.DB) *folder {
	return &folder{db: db, turn: make(chan struct{}, 1), waiting: map[string][]row{}}
}

var intoUnfolded = sqldb.NewInsert("unfolded", "id, records", "")

// put keeps a batch for the sums, in the transaction that keeps its exchanges.
func (f *folder) put(ctx context.Context, tx *sql.Tx, id string, rows []row) error {
	text, err := encodeUnfolded(rows)
	if err != nil {
		return err
	}
	_, err = f.db.Put(ctx, tx, intoUnfolded, false, 1, func(_ int, v *sqldb.Values) { v.Add(id, text) })
	return err
}

// wait remembers a batch that was kept, and adds to the sums what has waited for long enough. It needs no answer:
// whoever reads a sum adds what is left.
func (f *folder) wait(ctx context.Context, id string, rows []row) {
	f.guard.Lock()
	if f.rows += len(rows); len(f.waiting) == 0 {
		f.last = time.Now()
	}
	f.waiting[id] = rows
	due := f.rows >= foldRows || time.Since(f.last) >= foldEvery
	f.guard.Unlock()
	if !due {
		return
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
		_ = f.addUp(ctx) // whoever reads a sum meets the error
	default: // somebody does
	}
}

// folded adds all records to the sums that were kept before it was called, by any process.
func (f *folder) folded(ctx context.Context) error {
	some := false
	err := f.db.Statement("SELECT 1 FROM unfolded LIMIT 1").Each(ctx, f.db.Read, func(*sql.Rows) error {
		some = true
		return nil
	})
	if err != nil || !some {
		return doing("looking for records that are in no sum", err)
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return doing("adding records to the sums", f.addUp(ctx))
}

// addUp adds all batches to the sums. The caller has the turn.
func (f *folder) addUp(ctx context.Context) error {
	f.guard.Lock()
	known := maps.Clone(f.waiting)
	f.last = time.Now()
	f.guard.Unlock()
	if err := f.db.Prepare(ctx, inserts()...); err != nil {
		return err
	}
	for n := foldBatches; n == foldBatches; {
		err := f.db.Transact(ctx, func(tx *sql.Tx) error {
			rows, taken, err := f.take(ctx, tx, known)
			if n = taken; err != nil || len(rows) == 0 {
				return err
			}
			return f.addSums(ctx, tx, rows)
		})
		if err != nil {
			return err
		}
	}
	f.guard.Lock()
	defer f.guard.Unlock()
	for id := range known { // those that were not there, others have added
		f.rows -= len(f.waiting[id])
		delete(f.waiting, id)
	}
	return nil
}

// take removes batches, and returns their records and how many batches there were. Where others take some, it waits
// until they have.
func (f *folder) take(ctx context.Context, tx *sql.Tx, known map[string][]row) (rows []row, n int, err error) {
	lock := ""
	if f.db.Postgres {
		lock = " FOR UPDATE"
	}
	s := f.db.Statement("DELETE FROM unfolded WHERE id IN (SELECT id FROM unfolded ORDER BY id LIMIT ")
	s.Add(s.Arg(foldBatches), lock, ") RETURNING id, ")
	if ids := slices.Sorted(maps.Keys(known)); len(ids) > 0 && len(ids) < foldBatches*10 {
		s.Add("CASE WHEN id IN (", s.List(ids), ") THEN '' ELSE records END")
	} else {
		s.Add("records")
	}
	err = s.Each(ctx, tx, func(found *sql.Rows) error {
		var id, text string
		if err := found.Scan(&id, &text); err != nil {
			return err
		}
		n++
		if text == "" {
			rows = append(rows, known[id]...)
			return nil
		}
		some, err := decodeUnfolded(text)
		if err != nil {
			return fmt.Errorf("batch %s: %w", id, err)
		}
		rows = append(rows, some...)
		return nil
	})
	return rows, n, err
}

// encodeUnfolded returns records as they wait for the sums.
func encodeUnfolded(rows []row) (string, error) {
	r := &ledgerv1.RecordRequest{Records: make([]*ledgerv1.Record, len(rows))}
	for i := range rows {
		x := rows[i].Record
		r.Records[i] = &ledgerv1.Record{Start: timestamppb.New(rows[i].at),
			End: timestamppb.New(rows[i].at.Add(rows[i].duration)), Key: x.Key, Organization: x.Organization,
			Project: x.Project, User: x.User, Operation: x.Operation, Model: x.Model, Provider: x.Provider,
			UpstreamModel: x.UpstreamModel, Attempts: x.Attempts, Status: x.Status, Outcome: x.Outcome,
			ErrorCode: x.ErrorCode, FirstByteMs: x.FirstByteMs, Batch: x.Batch, CostNanoUsd: x.CostNanoUsd,
			Requests: x.Requests, AttemptList: x.AttemptList, RefusedBy: x.RefusedBy}
		for k := range usage.Kinds {
			*k.In(r.Records[i]) = *k.In(x)
		}
	}
	b, err := proto.Marshal(r)
	return base64.StdEncoding.EncodeToString(b), err
}

func decodeUnfolded(text string) ([]row, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var r ledgerv1.RecordRequest
	if err := proto.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	rows := make([]row, len(r.GetRecords()))
	for i, x := range r.GetRecords() {
		at := x.GetStart().AsTime()
		rows[i] = row{x, at, x.GetEnd().AsTime().Sub(at)}
	}
	return rows, nil
}

// addSums adds exchanges to all sums.
func (f *folder) addSums(ctx context.Context, tx *sql.Tx, rows []row) error {
	total := fold(rows)
	if err := f.addAggregates(ctx, tx, total); err != nil {
		return err
	}
	if err := f.addNamed(ctx, tx, total.named); err != nil {
		return err
	}
	if err := f.addHealth(ctx, tx, rows); err != nil {
		return err
	}
	if err := f.addOutcomes(ctx, tx, rows); err != nil {
		return err
	}
	return f.addSpent(ctx, tx, total.keyed)
}

// adding returns an insert that adds the values of some columns to those of the row with the same key.
func adding(table, key string, names []string) *sqldb.Insert {
	updates := make([]string, len(names))
	for i, name := range names {
		updates[i] = name + " = " + table + "." + name + " + excluded." + name
	}
	return sqldb.NewInsert(table, key+", "+strings.Join(names, ", "),
		"ON CONFLICT ("+key+") DO UPDATE SET "+strings.Join(updates, ", "))
}

var (
	intoAggregates = adding("aggregates", groupColumns, columns())
	intoMinutes    = adding("minutes", "start, model, provider", columns())
	intoSums       = adding("sums", "field, width, start, name", strings.Split(namedColumns, ", "))
)

// addAggregates adds to the sums of all levels and to those by minute, in an order that is the same for all
// transactions, so that none waits for one that waits for it.
func (f *folder) addAggregates(ctx context.Context, tx *sql.Tx, of folding) error {
	total := totals{}
	for g, m := range of.keyed {
		for level := range levels {
			total.add(g.at(level), m)
		}
	}
	all := slices.SortedFunc(maps.Keys(total), compareGroups)
	_, err := f.db.Put(ctx, tx, intoAggregates, false, len(all), func(i int, v *sqldb.Values) {
		g := &all[i]
		v.Add(int64(g.level), g.start, g.organization, g.project, g.key, g.model, g.upstream, g.provider, g.operation,
			g.batch)
		v.AddAll(total[*g][:])
	})
	if err != nil {
		return err
	}
	all = slices.SortedFunc(maps.Keys(of.minutes), compareGroups)
	_, err = f.db.Put(ctx, tx, intoMinutes, false, len(all), func(i int, v *sqldb.Values) {
		v.Add(all[i].start, all[i].model, all[i].provider)
		v.AddAll(of.minutes[all[i]][:])
	})
	return err
}

// A named identifies a row of sums.
type named struct {
	field, width, start int64
	name                string
}

// namedColumns are the measures of sums.
const namedColumns = "requests, errors, input_tokens, cached_tokens, output_tokens, cost"

var namedMeasures = [...]int{requests, failed, used + int(usage.InputTokens), used + int(usage.CachedTokens),
	used + int(usage.OutputTokens), cost}

type namedSums map[named]*[len(namedMeasures)]int64

// add adds the measures of an exchange to the hour and the day in which it began.
func (t namedSums) add(field int64, name string, at time.Time, m *sums) {
	for _, width := range [...]int64{3600, 86400} {
		key := named{field, width, at.Unix() / width * width, name}
		if t[key] == nil {
			t[key] = &[len(namedMeasures)]int64{}
		}
		for i, k := range namedMeasures {
			t[key][i] += m[k]
		}
	}
}

// addNamed adds to the sums of keys and users, in an order that is the same for all transactions.
func (f *folder) addNamed(ctx context.Context, tx *sql.Tx, total namedSums) error {
	all := slices.SortedFunc(maps.Keys(total), func(a, b named) int {
		return cmp.Or(cmp.Compare(a.field, b.field), cmp.Compare(a.width, b.width), cmp.Compare(a.start, b.start),
			strings.Compare(a.name, b.name))
	})
	_, err := f.db.Put(ctx, tx, intoSums, false, len(all), func(i int, v *sqldb.Values) {
		v.Add(all[i].field, all[i].width, all[i].start, all[i].name)
		v.AddAll(total[all[i]][:])
	})
	return err
}

// Fields with many values, which have sums of their own. A page that compares keys or users reads a row for each of
// them and each hour or day, instead of one for each of their models and providers, too.
const (
	sumsOfKeys  = 1
	sumsOfUsers = 2
)
