package admin

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// maxWriteQueue is how many writes of one owner wait. They are made one at a time.
const maxWriteQueue = 100

// A ref names an object.
type ref struct {
	kind configv1.Kind
	name string
}

func (r ref) ofKey() bool { return r.kind.Name == configv1.KeyKind().Name }

// A change is what a request is about to do.
type change struct {
	refs   []ref // what it may write
	dryRun bool
	action string // for the audit log, where it is not create, update or delete
	many   bool   // it may take applyTimeout, and not requestTimeout
	reads  []ref  // what else has to be known of a change of one key alone
	// approves is the change that waits and is approved; nil: the change is the caller's own.
	approves *waiting
	// full means that etcd takes nothing but deletions: what follows from them in keys is left out.
	full bool
}

// alone reports whether nothing needs to be known but the one object: a key, of which there may be very many.
func (c change) alone() bool { return len(c.refs) == 1 && c.refs[0].ofKey() }

// write makes a plan, and carries it out unless it is a dry run. Writers of this process take turns, those of an
// organization among themselves, so that nobody keeps operators from revoking a key; where one of another process came
// between, the plan is made anew after a pause by lot, which keeps two from meeting again and again.
func (s *server) write(ctx context.Context, c change, decide func(*plan) error) (*plan, error) {
	timeout := requestTimeout
	if c.many {
		timeout = applyTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	leave, err := authz.TakeTurn(ctx, s.turn, "changes wait")
	if err != nil {
		return nil, err
	}
	defer leave()
	const attempts = 10
	for n := 1; ; n++ {
		p, err := s.try(ctx, c, decide)
		if !errors.Is(err, configstore.ErrConflict) || n == attempts {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(time.Duration(n) * 10 * time.Millisecond)):
		}
	}
}

func (s *server) try(ctx context.Context, c change, decide func(*plan) error) (*plan, error) {
	// Also where a write may take long, etcd that is away is found soon.
	reading, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before, err := s.before(reading, c)
	if err != nil {
		return nil, err
	}
	caller, _ := authz.PrincipalOf(ctx)
	p := &plan{server: s, caller: caller, before: before, full: c.full}
	if err := decide(p); err != nil {
		return nil, err
	}
	if err := p.check(reading); err != nil {
		return nil, err
	}
	if c.approves == nil {
		if err := s.hold(reading, c, p); err != nil {
			return nil, err
		}
	}
	if c.dryRun {
		return p, nil
	}
	beside, more, err := s.beside(reading, c, p)
	if err != nil {
		return nil, err
	}
	entries, err := p.entries(ctx, c.action)
	if err != nil {
		return nil, err
	}
	if entries = append(entries, more...); len(entries) == 0 {
		return p, nil
	}
	if c.approves != nil {
		c.approves.sign(entries)
	}
	err = s.commit(ctx, c, p, entries, beside)
	if errors.Is(err, rpctypes.ErrNoSpace) && len(p.followed) > 0 && !c.full {
		c.full = true // whoever leaves can be deleted in any case
		return s.try(ctx, c, decide)
	}
	return p, err
}

// commit carries out a plan together with its entries of the audit log and what is written beside.
func (s *server) commit(ctx context.Context, c change, p *plan, entries []adminapi.AuditEntry,
	beside configstore.Also) error {
	err := s.config.Audit.Enter(ctx, entries, func(ctx context.Context, also configstore.Also) error {
		versions, err := s.config.Audit.VersionOps(ctx, audit.Change{Before: p.before, Writes: p.writes}, entries)
		if err != nil {
			return err
		}
		also.With = append(also.With, versions...)
		return s.carryOut(ctx, c, p, append(p.demands, also, beside)...)
	})
	if errors.Is(err, rpctypes.ErrNoSpace) && len(p.writes) > 0 && p.onlyDeletes() {
		// A key that was stolen has to be revoked in an etcd that takes no entry of it.
		if p.revision, err = s.config.Store.Remove(ctx, p.before, p.writes); err == nil {
			s.config.Audit.Direct(ctx, entries)
			s.config.Audit.KeepDirect(ctx, audit.Change{Before: p.before, Writes: p.writes}, p.revision, entries)
		}
	}
	return err
}

// carryOut stores the changes of a plan and what belongs to them.
func (s *server) carryOut(ctx context.Context, c change, p *plan, also ...configstore.Also) (err error) {
	if len(p.writes) == 0 {
		_, err = s.config.Store.Beside(ctx, also...)
		return err
	}
	if !c.alone() {
		p.revision, err = s.config.Store.Apply(ctx, p.before.Revision, p.writes, also...)
		return err
	}
	var expected int64
	if stored := p.before.Find(c.refs[0].kind, c.refs[0].name); stored != nil {
		expected = stored.Revision
	}
	p.revision, err = s.config.Store.Swap(ctx, p.writes[0], expected, also...)
	return err
}

// before reads what a change depends on. Keys are read after the rest: one that is changed between makes the write a
// conflict.
func (s *server) before(ctx context.Context, c change) (*configstore.Snapshot, error) {
	snapshot := &configstore.Snapshot{}
	if !c.alone() {
		var err error
		if snapshot, err = s.config.Store.Snapshot(ctx, configv1.KeyKind()); err != nil {
			return nil, err
		}
	}
	var keys []string
	for _, r := range c.refs {
		if r.ofKey() {
			keys = append(keys, r.name)
		}
	}
	entries, err := s.config.Store.Named(ctx, configv1.KeyKind(), keys)
	if err != nil {
		return nil, err
	}
	snapshot.Entries = append(snapshot.Entries, entries...)
	if c.alone() {
		return snapshot, s.readEach(ctx, snapshot, append(c.reads, ownersOf(entries)...))
	}
	return snapshot, nil
}

// readEach adds to a snapshot those of some objects that there are.
func (s *server) readEach(ctx context.Context, into *configstore.Snapshot, refs []ref) error {
	for _, r := range refs {
		entry, err := s.config.Store.Get(ctx, r.kind, r.name)
		if err == nil {
			into.Entries = append(into.Entries, entry)
		} else if !errors.Is(err, configstore.ErrNotFound) {
			return err
		}
	}
	return nil
}

// writeChanges answers with what was done, or would be.
func writeChanges(w http.ResponseWriter, p *plan) error {
	answer := adminapi.ApplyAnswer{Revision: p.revision, Changes: p.changes}
	if answer.Changes == nil {
		answer.Changes = []adminapi.Change{}
	}
	status := http.StatusOK
	if len(p.held) > 0 && p.held[0].shown.ID != "" { // of a dry run nothing waits
		status = http.StatusAccepted
	}
	return httpapi.WriteJSON(w, status, answer)
}

// boolOf reads a query parameter that is true or false, or absent: false.
func boolOf(r *http.Request, name string) (bool, error) {
	switch values := r.URL.Query()[name]; {
	case len(values) > 1:
		return false, givenTwice(name)
	case len(values) == 0, values[0] == "false":
		return false, nil
	case values[0] == "true":
		return true, nil
	}
	return false, openai.CodeInvalidValue.On(name, "The parameter %s must be true or false.", name)
}
