package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
)

// shows reports whether somebody may see a change that waits: their own, and others' if they may read the
// administrators of its object.
func (w *approvalRequest) shows(p authz.Principal) bool {
	return w.of(p) || p.May(authz.AdminsRead) && p.Sees(w.object)
}

// refuses returns the error of a principal who may not approve or reject a change, as far as the change says.
func (w *approvalRequest) refuses(p authz.Principal) error {
	var message string
	switch {
	case w.of(p):
		message = "You have asked for this change, so somebody else must approve it. To take it back, withdraw it."
	case !p.IsPerson():
		message = "Only a person approves or rejects a change. Sign in to the dashboard, or with: modelgate login."
	case !p.May(authz.AdminsWrite) || !p.May(authz.WriteScope(w.kind())):
		message = fmt.Sprintf("You have insufficient permissions for this operation: it takes the scopes %s and %s.",
			authz.AdminsWrite, authz.WriteScope(w.kind()))
	case !p.Tenant.IsAll() && !w.Tenants:
		message = "You have insufficient permissions for this operation: by its ApprovalRule, only an ADMIN or OWNER of the gateway approves this change."
	default:
		return nil
	}
	return openai.CodeInsufficientPermissions.New("%s", message)
}

// List returns the changes that wait and that the caller may see.
func (a Approvals) List(ctx context.Context) ([]adminapi.Approval, error) {
	all, _, err := a.all(ctx)
	if err != nil {
		return nil, err
	}
	p, _ := authz.PrincipalOf(ctx)
	all = slices.DeleteFunc(all, func(w *approvalRequest) bool { return !w.shows(p) })
	return a.shownWaiting(ctx, all)
}

// Since returns when the changes that wait were asked for.
func (a Approvals) Since(ctx context.Context) (since []time.Time, err error) {
	all, _, err := a.all(ctx)
	for _, w := range all {
		since = append(since, *w.AskedAt)
	}
	return since, err
}

// shownWaiting returns changes as the caller is shown them, with the difference from the objects as they are now.
func (a Approvals) shownWaiting(ctx context.Context, all []*approvalRequest) ([]adminapi.Approval, error) {
	p, _ := authz.PrincipalOf(ctx)
	stored := map[configstore.Ref]configstore.Entry{}
	for _, name := range kindsThatWait() {
		var names []string
		for _, w := range all {
			if w.Kind == name {
				names = append(names, w.Name)
			}
		}
		kind, _ := configv1.FindKind(name)
		entries, err := a.service.options.Store.Named(ctx, kind, names)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			stored[configstore.Ref{Kind: name, Name: e.Name}] = e
		}
	}
	items := []adminapi.Approval{}
	for _, w := range all {
		now := stored[configstore.Ref{Kind: w.Kind, Name: w.Name}]
		shown := w.Approval
		shown.Stale, shown.Own, shown.MayDecide = now.Revision != w.Base, w.of(p), w.refuses(p) == nil
		var err error
		if shown.Diff, err = redact.Diff(now.Object, redact.Object(w.object)); err != nil {
			return nil, err
		}
		items = append(items, shown)
	}
	return items, nil
}

// ByID returns a change that waits, if the caller may see it.
func (a Approvals) ByID(ctx context.Context, id string) (adminapi.Approval, error) {
	found, err := a.visibleWaiting(ctx, id)
	if err != nil {
		return adminapi.Approval{}, err
	}
	items, err := a.shownWaiting(ctx, []*approvalRequest{found})
	if err != nil {
		return adminapi.Approval{}, err
	}
	return items[0], nil
}

// visibleWaiting returns a change that waits, if the caller may see it.
func (a Approvals) visibleWaiting(ctx context.Context, id string) (*approvalRequest, error) {
	found, err := a.one(ctx, id)
	if err != nil {
		return nil, err
	}
	if p, _ := authz.PrincipalOf(ctx); !found.shows(p) {
		return nil, fmt.Errorf("the change %q: %w", id, configstore.ErrNotFound)
	}
	return found, nil
}

// decided returns a change that waits, if the caller may approve or reject it.
func (a Approvals) decided(ctx context.Context, id string) (*approvalRequest, error) {
	found, err := a.visibleWaiting(ctx, id)
	if err != nil {
		return nil, err
	}
	p, _ := authz.PrincipalOf(ctx)
	return found, found.refuses(p)
}

// Approve makes a change that waits, with the rights of whoever approves it and by the rules of any other write. It
// returns which object it stored.
func (a Approvals) Approve(ctx context.Context, id string) (*Plan, Ref, error) {
	found, err := a.decided(ctx, id)
	if err != nil {
		return nil, Ref{}, err
	}
	of := Ref{found.kind(), found.Name}
	c := change{refs: []Ref{of}, approves: found}
	asker := askerOf(found)
	if k := asKey(found.object); k != nil {
		c.reads = append(tenantsOf(k), asker...)
	}
	done, err := a.service.write(ctx, c, func(p *Plan) error {
		// If it was decided since, the transaction would fail again and again.
		if now, err := a.one(ctx, found.ID); err != nil || now.revision != found.revision {
			return errDecided(err)
		}
		if err := p.fits(found, asker); err != nil {
			return err
		}
		object := proto.Clone(found.object).(configv1.Object)
		if errs := configv1.Validate(object, a.service.options.Vendors); len(errs) > 0 {
			return errs
		}
		stored := p.stored(of.Kind, of.Name)
		if err := errors.Join(p.permission().mayWrite(object, stored), p.permission().mayReach(object, stored)); err != nil {
			return err
		}
		if err := p.store(of.Kind, object, stored, redact.Object(object)); err != nil {
			return err
		}
		return a.mayApproveStill(ctx, c, p)
	})
	return done, of, err
}

// mayApproveStill judges an admin of a tenant by the rules as they are now.
func (a Approvals) mayApproveStill(ctx context.Context, c change, p *Plan) error {
	if p.caller.Tenant.IsAll() {
		return nil
	}
	reasons, err := a.reasons(ctx, c, p)
	if err != nil {
		return err
	}
	now := *c.approves
	for _, why := range reasons {
		for _, r := range why {
			now.Tenants = now.Tenants && r.Rule.GetApprovers() == configv1.Approvers_TENANT_ADMINS
		}
	}
	return now.refuses(p.caller)
}

// askerOf returns the account or the token that asked, if it is an object.
func askerOf(w *approvalRequest) []Ref {
	if w.AskedBy == authz.NameRoot {
		return nil
	}
	refs := []Ref{{configv1.KindOf((*configv1.Account)(nil)), w.AskedBy}}
	if w.ByToken {
		refs[0].Kind = configv1.KindOf((*configv1.AdminToken)(nil))
		if w.Person != "" {
			refs = append(refs, Ref{configv1.KindOf((*configv1.Account)(nil)), w.Person})
		}
	}
	return refs
}

// fits returns why a change cannot be approved any more.
func (p *Plan) fits(w *approvalRequest, asker []Ref) error {
	var base int64
	if e := p.before.Find(w.kind(), w.Name); e != nil {
		base = e.Revision
	}
	switch {
	case !w.ExpiresAt.After(time.Now()):
		return void("The change has expired. Have it asked for again.")
	case base != w.Base:
		return void("%s %s was changed after this change was asked for. Reject it, and have it asked for again.", w.Kind,
			w.Name)
	}
	for _, of := range asker {
		gone := true
		switch o := p.stored(of.Kind, of.Name).(type) {
		case *configv1.Account:
			gone = !mayAsk(o, w)
		case *configv1.AdminToken:
			gone = o.GetExpiresAt() != nil && !o.GetExpiresAt().AsTime().After(time.Now())
		}
		if gone {
			return void("%s %s, which asked for this change, does not exist any more, is disabled, or has lost the right to make it. Reject the change.",
				of.Kind.Name, of.Name)
		}
	}
	return nil
}

func void(format string, args ...any) error {
	return openai.CodeApprovalVoid.New(format, args...)
}

// errDecided is the error of whoever decides after somebody else, or err if that is another one.
func errDecided(err error) error {
	if err != nil && !errors.Is(err, configstore.ErrNotFound) && !errors.Is(err, configstore.ErrConflict) {
		return err
	}
	return void("Somebody else has decided about this change, or it was withdrawn, at the same time.")
}

// Reject ends the wait of a change, and says why.
func (a Approvals) Reject(ctx context.Context, id, reason string) (adminapi.Approval, error) {
	if len(reason) > maxReason {
		return adminapi.Approval{}, openai.CodeInvalidValue.On("reason",
			"The member reason may have at most %d bytes.", maxReason)
	}
	found, err := a.decided(ctx, id)
	if err != nil {
		return adminapi.Approval{}, err
	}
	what := found.says()
	if reason != "" {
		what += "\n" + reason
	}
	if err := a.end(ctx, found, found.entry(ctx, actionReject, what)); err != nil {
		return adminapi.Approval{}, errDecided(err)
	}
	return found.Approval, nil
}

// Withdraw ends the wait of a change that the caller has asked for.
func (a Approvals) Withdraw(ctx context.Context, id string) error {
	found, err := a.visibleWaiting(ctx, id)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(ctx)
	if !found.of(p) {
		return openai.CodeInsufficientPermissions.New("Only who has asked for a change withdraws it. To end the change of somebody else, reject it.")
	}
	if err := a.end(ctx, found, found.entry(ctx, actionWithdraw, found.says())); err != nil {
		return errDecided(err)
	}
	return nil
}

// Waits returns what an object waits for; nil: nothing.
func (p *Plan) Waits(of Ref) *adminapi.Approval {
	for _, h := range p.held {
		if h.Kind.Name == of.Kind.Name && h.Name == of.Name {
			return h.shown
		}
	}
	return nil
}
