package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A Plan is a set of changes to the configuration as it was at one revision. Its methods return errors of one
// object. Check then looks at the whole.
type Plan struct {
	service *Service
	caller  authz.Principal
	before  *configstore.Snapshot // of keys, only those that the plan is about

	Changes []adminapi.Change        // what the caller asked for, each with its outcome
	writes  []configstore.Change     // what is to be stored
	given   map[configstore.Ref]bool // what changes are of
	written map[configstore.Ref]int  // where in writes
	held    []held                   // what waits for approval, and is not in writes
	holders []string                 // accounts that are deleted or have a new holder
	// followed are what nobody has changed, and what changes for a change of an account.
	followed map[configstore.Ref]bool
	full     bool      // as in change
	has      *holdings // of the caller's organization; nil: not read yet
	// tokens are the stored tokens by the account that made them. Nil: not read yet.
	tokens map[string][]*configv1.AdminToken
	// following means that the roles of provisioned accounts follow from their groups, whoever has changed these.
	following bool
	demands   []configstore.Also // what must be so when it is carried out
	owned     *owned.Ownership
	Revision  int64 // of the configuration after it, once it is carried out
}

// put plans to store an object as an operator wrote it.
func (p *Plan) put(written configv1.Object) error {
	kind := configv1.KindOf(written)
	if p.planned(kind, written.GetName()) {
		return configv1.Errors{{Object: configv1.Label(written), Message: "is given twice"}}
	}
	var stored configv1.Object
	if e := p.visible(Ref{kind, written.GetName()}); e != nil {
		stored = e.Object
	}
	object := proto.Clone(written).(configv1.Object)
	if !p.caller.Tenant.IsAll() {
		dropTime(object)
	}
	if err := inherit(object, holderOf(object, stored)); err != nil {
		return err
	}
	if errs := configv1.Validate(p.service.opened(object), p.service.options.Vendors); len(errs) > 0 {
		return errs
	}
	if err := errors.Join(p.permission().mayWrite(object, stored), p.permission().mayReach(object, stored)); err != nil {
		return err
	}
	if err := p.service.options.Allowed.Check(object); err != nil {
		return err
	}
	if err := p.service.checkVariables(object, stored); err != nil {
		return err
	}
	p.people().enables(object, stored)
	p.service.reuse(object, stored)
	usePassword(object, stored)
	if err := p.permission().noteTenant(object, stored); err != nil {
		return err
	}
	shown := redact.Object(object)
	if err := hashPassword(object); err != nil {
		return err
	}
	p.service.seal(object)
	return p.store(kind, object, stored, shown)
}

// store plans to store an object that is complete. Shown is how it is shown.
func (p *Plan) store(kind configv1.Kind, object, stored, shown configv1.Object) error {
	if err := p.permission().mayTouch(kind, object.GetName(), object, stored); err != nil {
		return err
	}
	change := adminapi.Change{Kind: kind.Name, Name: object.GetName(), Action: adminapi.Updated}
	there := p.before.Find(kind, object.GetName()) != nil
	switch {
	case stored != nil && proto.Equal(stored, object):
		change.Action = adminapi.Unchanged
	case !there:
		change.Action = adminapi.Created
	}
	ref := configstore.Ref{Kind: kind.Name, Name: object.GetName()}
	if err := p.owned.MayWrite(ref, there, change.Action != adminapi.Unchanged); err != nil {
		return err
	}
	if change.Action != adminapi.Unchanged {
		diff, err := redact.Diff(stored, shown)
		if err != nil {
			return err
		}
		lost, err := p.permission().maySet(object, stored)
		if err != nil {
			return err
		}
		change.Diff = lost + diff
		p.write(configstore.Change{Kind: kind, Name: object.GetName(), Object: object})
	}
	p.change(change)
	if change.Action == adminapi.Unchanged {
		return nil
	}
	return p.people().succeed(object, stored)
}

// remove plans to delete an object, which may be one that cannot be read.
func (p *Plan) remove(of Ref) error {
	entry := p.before.Find(of.Kind, of.Name)
	if entry == nil {
		return fmt.Errorf("%s %s: %w", of.Kind.Name, of.Name, configstore.ErrNotFound)
	}
	if err := p.permission().mayTouch(of.Kind, of.Name, nil, entry.Object); err != nil {
		return err
	}
	if err := p.owned.MayWrite(configstore.Ref{Kind: of.Kind.Name, Name: of.Name}, true, true); err != nil {
		return err
	}
	removed := adminapi.Change{Kind: of.Kind.Name, Name: of.Name, Action: adminapi.Deleted}
	if entry.Object != nil {
		if err := p.permission().mayWrite(nil, entry.Object); err != nil {
			return err
		}
		diff, err := redact.Diff(entry.Object, nil)
		if err != nil {
			return err
		}
		removed.Diff = diff
	}
	p.change(removed)
	p.write(configstore.Change{Kind: of.Kind, Name: of.Name})
	return nil
}

// existing returns an object that is there and can be read.
func (p *Plan) existing(of Ref) (configv1.Object, error) {
	entry := p.visible(of)
	if entry == nil {
		return nil, fmt.Errorf("%s %s: %w", of.Kind.Name, of.Name, configstore.ErrNotFound)
	}
	if entry.Err != nil {
		return nil, configv1.Errors{{Object: of.Kind.Name + " " + of.Name, Message: entry.Err.Error()}}
	}
	return entry.Object, nil
}

func (p *Plan) planned(kind configv1.Kind, name string) bool {
	return p.given[configstore.Ref{Kind: kind.Name, Name: name}]
}

func (p *Plan) change(c adminapi.Change) {
	if p.given == nil {
		p.given = map[configstore.Ref]bool{}
	}
	p.given[configstore.Ref{Kind: c.Kind, Name: c.Name}] = true
	p.Changes = append(p.Changes, c)
}

func (p *Plan) write(c configstore.Change) {
	if p.written == nil {
		p.written = map[configstore.Ref]int{}
	}
	p.written[configstore.Ref{Kind: c.Kind.Name, Name: c.Name}] = len(p.writes)
	p.writes = append(p.writes, c)
}

// stored returns the object as it is stored, or nil if there is none or it cannot be read.
func (p *Plan) stored(kind configv1.Kind, name string) configv1.Object {
	if e := p.before.Find(kind, name); e != nil {
		return e.Object
	}
	return nil
}

// check returns what is wrong between objects after the plan that was not wrong before: what others broke does not
// keep anyone from working.
func (p *Plan) check(ctx context.Context) error {
	if err := p.people().followGroups(); err != nil {
		return err
	}
	if err := p.people().followPeople(ctx); err != nil {
		return err
	}
	if err := p.people().checkKeyOwners(); err != nil {
		return err
	}
	return p.checkSet()
}

func (p *Plan) checkSet() error {
	already := configv1.ValidateSet(p.objects(nil))
	var errs configv1.Errors
	for _, e := range configv1.ValidateSet(p.objects(p.writes)) {
		if !slices.Contains(already, e) {
			errs = append(errs, e)
		}
	}
	errs = append(errs, p.checkTenants()...)
	if len(errs) == 0 {
		return errors.Join(p.checkLeft(), p.checkOwners())
	}
	if slices.ContainsFunc(p.writes, func(c configstore.Change) bool { return c.Object != nil }) {
		return errs
	}
	return openai.CodeInUse.New("The object is still in use: %s",
		errs.Error())
}

// objects returns the configuration with the writes laid over it.
func (p *Plan) objects(writes []configstore.Change) []configv1.Object {
	replaced := map[configstore.Ref]bool{}
	for _, c := range writes {
		replaced[configstore.Ref{Kind: c.Kind.Name, Name: c.Name}] = true
	}
	var objects []configv1.Object
	for _, e := range p.before.Entries {
		if e.Object != nil && !replaced[configstore.Ref{Kind: e.Kind.Name, Name: e.Name}] {
			objects = append(objects, e.Object)
		}
	}
	for _, c := range writes {
		if c.Object != nil {
			objects = append(objects, c.Object)
		}
	}
	return objects
}

// Entry returns an object of the plan as it is stored once the plan is carried out.
func (p *Plan) Entry(kind configv1.Kind, name string) *configstore.Entry {
	if i, ok := p.written[configstore.Ref{Kind: kind.Name, Name: name}]; ok {
		return &configstore.Entry{Kind: kind, Name: name, Object: p.writes[i].Object, Revision: p.Revision}
	}
	return p.before.Find(kind, name)
}

// onlyDeletes reports whether nothing has to be stored.
func (p *Plan) onlyDeletes() bool {
	return !slices.ContainsFunc(p.writes, func(c configstore.Change) bool { return c.Object != nil })
}

// entries returns the audit entries of the plan. Action replaces the word for an update.
func (p *Plan) entries(ctx context.Context, action string) ([]adminapi.AuditEntry, error) {
	var entries []adminapi.AuditEntry
	for _, c := range p.Changes {
		if c.Action == adminapi.Unchanged || c.Action == adminapi.Pending {
			continue
		}
		e := adminapi.AuditEntry{
			Actor: p.caller.Name, Role: p.caller.Role, Address: p.caller.Address, Kind: c.Kind, Name: c.Name, Diff: c.Diff,
			RequestID: authz.RequestIDOf(ctx),
		}
		e.Actor = cmp.Or(p.owned.By(c.Kind, c.Name), e.Actor)
		if i, ok := p.written[configstore.Ref{Kind: c.Kind, Name: c.Name}]; ok {
			var err error
			w := p.writes[i]
			if e.Tenants, err = audit.ViewsOfChange(p.caller, p.stored(w.Kind, w.Name), w.Object); err != nil {
				return nil, err
			}
		}
		switch {
		case action != "":
			e.Action = action
		case c.Action == adminapi.Created:
			e.Action = "create"
		case c.Action == adminapi.Deleted:
			e.Action = "delete"
		default:
			e.Action = "update"
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Newest returns the revision of the last change to the plan's objects. If the plan changes nothing, it is the
// revision of the stored objects. They may not be in force yet: whoever asks again wants to know.
func (p *Plan) Newest() int64 {
	if p.Revision != 0 {
		return p.Revision
	}
	about := map[configstore.Ref]bool{}
	for _, c := range p.Changes {
		about[configstore.Ref{Kind: c.Kind, Name: c.Name}] = true
	}
	var newest int64
	for i := range p.before.Entries {
		if e := &p.before.Entries[i]; about[configstore.Ref{Kind: e.Kind.Name, Name: e.Name}] {
			newest = max(newest, e.Revision)
		}
	}
	return newest
}
