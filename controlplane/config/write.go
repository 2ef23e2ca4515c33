package config

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

// maxWriteQueue is how many writes of one owner wait. They are made one at a time.
const maxWriteQueue = 100

// Bounds of the time of a change, and of one of many objects.
const (
	changeTimeout = 5 * time.Second
	manyTimeout   = 25 * time.Second
)

// A Ref names an object.
type Ref struct {
	Kind configv1.Kind
	Name string
}

func (r Ref) ofKey() bool { return r.Kind.Name == configv1.KeyKind().Name }

// A change is what one request asks for.
type change struct {
	refs   []Ref // what it may write
	dryRun bool
	action string // for the audit log, unless it is create, update or delete
	many   bool   // it may take manyTimeout, and not changeTimeout
	reads  []Ref  // what else has to be known of a change of one key alone
	// approves is the change that waits and is approved; nil: the change is the caller's own.
	approves *approvalRequest
	// full means that etcd takes nothing but deletions: what follows from them in keys is left out.
	full bool
	// declared is what the change declares. Nil: it is one of the admin API or of a file.
	declared map[configstore.Ref]owned.Declared
	held     []clientv3.Cmp // what else must be so
}

// alone reports whether only the one object needs to be read. It is a key: there may be very many.
func (c change) alone() bool { return len(c.refs) == 1 && c.refs[0].ofKey() }

// asks returns which owners the change needs to know.
func (c change) asks() owned.Question {
	q := owned.Question{Declared: c.declared, Approved: c.approves != nil}
	if c.alone() {
		q.Alone = &configstore.Ref{Kind: c.refs[0].Kind.Name, Name: c.refs[0].Name}
	}
	return q
}

// write makes a plan, and carries it out unless it is a dry run. Writers of this process take turns. Those of an
// organization take turns among themselves, so that nobody keeps operators from revoking a key. If a writer of
// another process comes between, the plan is made anew after a random pause, which keeps two from meeting again and
// again.
func (s *Service) write(ctx context.Context, c change, decide func(*Plan) error) (*Plan, error) {
	timeout := changeTimeout
	if c.many {
		timeout = manyTimeout
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
		if err := timing.Sleep(ctx, rand.N(time.Duration(n)*10*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

func (s *Service) try(ctx context.Context, c change, decide func(*Plan) error) (*Plan, error) {
	// A write may take long, but an unavailable etcd is noticed soon.
	reading, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	before, err := s.before(reading, c)
	if err != nil {
		return nil, err
	}
	owners, err := owned.Read(reading, s.options.Store, c.asks())
	if err != nil {
		return nil, err
	}
	caller, _ := authz.PrincipalOf(ctx)
	p := &Plan{service: s, caller: caller, before: before, full: c.full, owned: owners,
		demands: []configstore.Also{{If: c.held}}}
	if err := decide(p); err != nil {
		return nil, err
	}
	if err := p.check(reading); err != nil {
		return nil, err
	}
	if c.approves == nil {
		if err := s.Approvals().hold(reading, c, p); err != nil {
			return nil, err
		}
	}
	if c.dryRun {
		return p, nil
	}
	beside, more, err := s.Approvals().beside(reading, c, p)
	if err != nil {
		return nil, err
	}
	entries, err := p.entries(ctx, c.action)
	if err != nil {
		return nil, err
	}
	marks, err := p.owned.Writes()
	if err != nil {
		return nil, err
	}
	p.demands = append(p.demands, marks)
	if entries = append(entries, more...); len(entries) == 0 {
		if len(marks.With) > 0 {
			_, err = s.options.Store.Beside(reading, p.demands...)
		}
		return p, err
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
func (s *Service) commit(ctx context.Context, c change, p *Plan, entries []adminapi.AuditEntry,
	beside configstore.Also) error {
	err := s.options.Audit.Enter(ctx, entries, func(ctx context.Context, also configstore.Also) error {
		versions, err := s.options.Audit.VersionOps(ctx, audit.Change{Before: p.before, Writes: p.writes}, entries)
		if err != nil {
			return err
		}
		also.With = append(also.With, versions...)
		return s.carryOut(ctx, c, p, append(p.demands, also, beside)...)
	})
	if errors.Is(err, rpctypes.ErrNoSpace) && len(p.writes) > 0 && p.onlyDeletes() {
		// A key that was stolen has to be revoked in an etcd that takes no entry of it.
		if p.Revision, err = s.options.Store.Remove(ctx, p.before, p.writes); err == nil {
			s.options.Audit.Direct(ctx, entries)
			s.options.Audit.KeepDirect(ctx, audit.Change{Before: p.before, Writes: p.writes}, p.Revision, entries)
		}
	}
	return err
}

// carryOut stores the changes of a plan and what belongs to them.
func (s *Service) carryOut(ctx context.Context, c change, p *Plan, also ...configstore.Also) (err error) {
	if len(p.writes) == 0 {
		_, err = s.options.Store.Beside(ctx, also...)
		return err
	}
	if !c.alone() {
		p.Revision, err = s.options.Store.Apply(ctx, p.before.Revision, p.writes, also...)
		return err
	}
	var expected int64
	if stored := p.before.Find(c.refs[0].Kind, c.refs[0].Name); stored != nil {
		expected = stored.Revision
	}
	p.Revision, err = s.options.Store.Swap(ctx, p.writes[0], expected, also...)
	return err
}

// before reads what a change depends on. Keys are read after the rest: one that is changed between makes the write a
// conflict.
func (s *Service) before(ctx context.Context, c change) (*configstore.Snapshot, error) {
	snapshot := &configstore.Snapshot{}
	if !c.alone() {
		var err error
		if snapshot, err = s.options.Store.Snapshot(ctx, configv1.KeyKind()); err != nil {
			return nil, err
		}
	}
	var keys []string
	for _, r := range c.refs {
		if r.ofKey() {
			keys = append(keys, r.Name)
		}
	}
	entries, err := s.options.Store.Named(ctx, configv1.KeyKind(), keys)
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
func (s *Service) readEach(ctx context.Context, into *configstore.Snapshot, refs []Ref) error {
	for _, r := range refs {
		entry, err := s.options.Store.Get(ctx, r.Kind, r.Name)
		if err == nil {
			into.Entries = append(into.Entries, entry)
		} else if !errors.Is(err, configstore.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Pending reports whether something waits for approval. Nothing of a dry run does.
func (p *Plan) Pending() bool { return len(p.held) > 0 && p.held[0].shown.ID != "" }
