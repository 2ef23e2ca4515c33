package incidents

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/sqldb"
	"github.com/modelgate/modelgate/internal/id"
)

const (
	// keeps is how long a closed incident is kept.
	keeps = 400 * 24 * time.Hour
	// most is how many incidents are listed.
	most = 200
)

// errLost is returned if another control plane has changed the same.
var errLost = errors.New("another control plane has changed it")

// A Store keeps incidents in tables of the ledger's database. It holds nothing, and is safe for concurrent use.
type Store struct{ db *sqldb.DB }

// NewStore returns the store of a database.
func NewStore(db *sqldb.DB) *Store { return &Store{db} }

// open returns the open incidents by subject.
func (s *Store) open(ctx context.Context) (map[string]kept, error) {
	all := map[string]kept{}
	q := s.db.Statement("SELECT version, document FROM incidents WHERE closed = 0")
	err := q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var k kept
		var document string
		if err := rows.Scan(&k.version, &document); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(document), &k); err != nil {
			return err
		}
		all[k.Subject] = k
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the open incidents: %w", err)
	}
	return all, nil
}

// apply stores a change with its transition: both or neither, and once, whoever else does it too.
func (s *Store) apply(ctx context.Context, c change) error {
	k := c.after
	if k.version == 0 {
		k.ID = id.New("inc")
	}
	document := k
	document.Transitions, document.Notes = nil, nil
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		var q *sqldb.Statement
		closed := int64(0)
		if k.Until != nil {
			closed = k.Until.UnixMicro()
		}
		if k.version == 0 {
			q = s.db.Statement("INSERT INTO incidents (id, subject, opened, closed, severity, version, document) VALUES (")
			q.Add(q.Arg(k.ID), ", ", q.Arg(k.Subject), ", ", q.Arg(k.Since.UnixMicro()), ", ", q.Arg(closed), ", ",
				q.Arg(k.Severity), ", 1, ", q.Arg(string(text)), ") ON CONFLICT DO NOTHING")
		} else {
			q = s.db.Statement("UPDATE incidents SET version = version + 1, closed = ")
			q.Add(q.Arg(closed), ", severity = ", q.Arg(k.Severity), ", document = ", q.Arg(string(text)))
			q.And("id", "=", k.ID)
			q.And("version", "=", k.version)
		}
		if n, err := q.Exec(ctx, tx); err != nil || n == 0 {
			return orElse(err, errLost)
		}
		if c.transition == nil {
			return nil
		}
		t := c.transition
		q = s.db.Statement("INSERT INTO incident_transitions (incident, version, at, state, kind, severity, why) VALUES (")
		q.Add(q.Arg(k.ID), ", ", q.Arg(k.version+1), ", ", q.Arg(t.At.UnixMicro()), ", ", q.Arg(t.State), ", ",
			q.Arg(t.Kind), ", ", q.Arg(t.Severity), ", ", q.Arg(t.Why), ")")
		_, err := q.Exec(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping the incident of %s: %w", k.Subject, err)
	}
	return nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// List returns the open incidents, the worst first, and then the newest that have closed, unless they are left out.
func (s *Store) List(ctx context.Context, closed bool) ([]adminapi.Incident, error) {
	q := s.db.Statement("SELECT document FROM incidents")
	if !closed {
		q.Condition("closed = 0")
	}
	q.Add(" ORDER BY CASE WHEN closed = 0 THEN 0 ELSE 1 END, CASE WHEN closed = 0 THEN severity ELSE '' END, ",
		"opened DESC, id LIMIT ", q.Arg(most))
	return s.read(ctx, q)
}

// Get returns an incident, and false if there is none.
func (s *Store) Get(ctx context.Context, name string) (adminapi.Incident, bool, error) {
	q := s.db.Statement("SELECT document FROM incidents")
	q.And("id", "=", name)
	all, err := s.read(ctx, q)
	if err != nil || len(all) == 0 {
		return adminapi.Incident{}, false, err
	}
	return all[0], true, nil
}

// read returns what a statement finds, with transitions and notes.
func (s *Store) read(ctx context.Context, q *sqldb.Statement) ([]adminapi.Incident, error) {
	all := []adminapi.Incident{}
	at := map[string]int{}
	var ids []string
	err := q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var document string
		if err := rows.Scan(&document); err != nil {
			return err
		}
		var i adminapi.Incident
		err := json.Unmarshal([]byte(document), &i)
		i.Transitions, i.Notes = []adminapi.IncidentTransition{}, []adminapi.IncidentNote{}
		at[i.ID], all, ids = len(all), append(all, i), append(ids, i.ID)
		return err
	})
	if err == nil {
		err = s.addTransitions(ctx, ids, func(name string) *adminapi.Incident { return &all[at[name]] })
	}
	if err == nil {
		err = s.addNotes(ctx, ids, func(name string) *adminapi.Incident { return &all[at[name]] })
	}
	if err != nil {
		return nil, fmt.Errorf("reading incidents: %w", err)
	}
	return all, nil
}

func (s *Store) addTransitions(ctx context.Context, ids []string, of func(string) *adminapi.Incident) error {
	if len(ids) == 0 {
		return nil
	}
	q := s.db.Statement("SELECT incident, at, state, kind, severity, why FROM incident_transitions")
	q.Among("incident", ids)
	q.Add(" ORDER BY incident, version")
	return q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var name string
		var t adminapi.IncidentTransition
		err := rows.Scan(&name, sqldb.Time{To: &t.At, Unit: time.Microsecond}, &t.State, &t.Kind, &t.Severity, &t.Why)
		i := of(name)
		i.Transitions = append(i.Transitions, t)
		return err
	})
}

func (s *Store) addNotes(ctx context.Context, ids []string, of func(string) *adminapi.Incident) error {
	if len(ids) == 0 {
		return nil
	}
	q := s.db.Statement("SELECT incident, at, author, acknowledged, note FROM incident_notes")
	q.Among("incident", ids)
	q.Add(" ORDER BY at, id")
	return q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var name string
		var acknowledged int64
		var n adminapi.IncidentNote
		err := rows.Scan(&name, sqldb.Time{To: &n.At, Unit: time.Microsecond}, &n.Author, &acknowledged, &n.Text)
		i := of(name)
		if n.Acknowledged = acknowledged != 0; n.Acknowledged && i.AcknowledgedAt == nil {
			i.AcknowledgedBy, i.AcknowledgedAt = n.Author, &n.At
		}
		i.Notes = append(i.Notes, n)
		return err
	})
}

// Note keeps a note of an incident.
func (s *Store) Note(ctx context.Context, incident string, n adminapi.IncidentNote) error {
	acknowledged := 0
	if n.Acknowledged {
		acknowledged = 1
	}
	q := s.db.Statement("INSERT INTO incident_notes (id, incident, at, author, acknowledged, note) VALUES (")
	marks := []any{id.New("note"), incident, n.At.UnixMicro(), n.Author, acknowledged, n.Text}
	for i, v := range marks {
		if i > 0 {
			q.Add(", ")
		}
		q.Add(q.Arg(v))
	}
	q.Add(")")
	if _, err := q.Exec(ctx, s.db.Write); err != nil {
		return fmt.Errorf("keeping a note of an incident: %w", err)
	}
	return nil
}

// prune deletes incidents that have closed long ago, with what belongs to them.
func (s *Store) prune(ctx context.Context, now time.Time) error {
	q := s.db.Statement("SELECT id FROM incidents")
	q.Condition("closed > 0")
	q.And("closed", "<", now.Add(-keeps).UnixMicro())
	q.Add(" LIMIT 1000")
	var old []string
	err := q.Each(ctx, s.db.Read, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		old = append(old, name)
		return err
	})
	for some := range slices.Chunk(old, sqldb.RowsAtOnce) {
		for table, column := range map[string]string{"incident_notes": "incident", "incident_transitions": "incident",
			"incidents": "id"} {
			if err != nil {
				break
			}
			q := s.db.Statement("DELETE FROM ", table)
			q.Among(column, some)
			_, err = q.Exec(ctx, s.db.Write)
		}
	}
	if err != nil {
		return fmt.Errorf("pruning incidents: %w", err)
	}
	return nil
}
