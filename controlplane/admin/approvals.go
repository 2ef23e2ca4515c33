package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// shows reports whether somebody may see a change that waits: their own, and those of others where they may read
// who administers what the object is of.
func (w *waiting) shows(p authz.Principal) bool {
	return w.of(p) || p.May(authz.AdminsRead) && p.Sees(w.object)
}

// refuses returns the error of a principal who may not approve or reject a change, as far as the change says.
func (w *waiting) refuses(p authz.Principal) error {
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

// approvals lists the changes that wait.
func (s *server) approvals(w http.ResponseWriter, r *http.Request) error {
	all, _, err := s.waiting(r.Context())
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	all = slices.DeleteFunc(all, func(w *waiting) bool { return !w.shows(p) })
	items, err := s.shownWaiting(r.Context(), all)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Approval]{Items: items})
}

// shownWaiting returns changes as the caller is shown them, with the difference from the objects as they are now.
func (s *server) shownWaiting(ctx context.Context, all []*waiting) ([]adminapi.Approval, error) {
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
		entries, err := s.config.Store.Named(ctx, kind, names)
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

func (s *server) approval(w http.ResponseWriter, r *http.Request) error {
	found, err := s.visibleWaiting(r)
	if err != nil {
		return err
	}
	items, err := s.shownWaiting(r.Context(), []*waiting{found})
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, items[0])
}

// visibleWaiting returns the change that a path is about, if the caller may see it.
func (s *server) visibleWaiting(r *http.Request) (*waiting, error) {
	found, err := s.one(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if p, _ := authz.PrincipalOf(r.Context()); !found.shows(p) {
		return nil, fmt.Errorf("the change %q: %w", r.PathValue("id"), configstore.ErrNotFound)
	}
	return found, nil
}

// approve makes a change that waits, with the rights of whoever approves it and by the rules of any other write.
func (s *server) approve(w http.ResponseWriter, r *http.Request) error {
	found, err := s.visibleWaiting(r)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	if err := found.refuses(p); err != nil {
		return err
	}
	of := ref{found.kind(), found.Name}
	c := change{refs: []ref{of}, approves: found}
	asker := askerOf(found)
	if k := asKey(found.object); k != nil {
		c.reads = append(tenantsOf(k), asker...)
	}
	done, err := s.write(r.Context(), c, func(p *plan) error {
		// Where it was decided since, the transaction would fail again and again.
		if now, err := s.one(r.Context(), found.ID); err != nil || now.revision != found.revision {
			return errDecided(err)
		}
		if err := p.fits(found, asker); err != nil {
			return err
		}
		object := proto.Clone(found.object).(configv1.Object)
		if errs := configv1.Validate(object, s.config.Vendors); len(errs) > 0 {
			return errs
		}
		stored := p.stored(of.kind, of.name)
		if err := errors.Join(p.mayWrite(object, stored), p.mayReach(object, stored)); err != nil {
			return err
		}
		if err := p.store(of.kind, object, stored, redact.Object(object)); err != nil {
			return err
		}
		return s.mayApproveStill(r.Context(), c, p)
	})
	if err != nil {
		return err
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	return s.writeEntry(w, r, http.StatusOK, *done.entry(of.kind, of.name))
}

// mayApproveStill judges an admin of a tenant by the rules as they are now.
func (s *server) mayApproveStill(ctx context.Context, c change, p *plan) error {
	if p.caller.Tenant.IsAll() {
		return nil
	}
	reasons, err := s.reasons(ctx, c, p)
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
func askerOf(w *waiting) []ref {
	if w.AskedBy == authz.NameRoot {
		return nil
	}
	refs := []ref{{configv1.KindOf((*configv1.Account)(nil)), w.AskedBy}}
	if w.ByToken {
		refs[0].kind = configv1.KindOf((*configv1.AdminToken)(nil))
		if w.Person != "" {
			refs = append(refs, ref{configv1.KindOf((*configv1.Account)(nil)), w.Person})
		}
	}
	return refs
}

// fits returns why a change cannot be approved any more.
func (p *plan) fits(w *waiting, asker []ref) error {
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
		switch o := p.stored(of.kind, of.name).(type) {
		case *configv1.Account:
			gone = !mayAsk(o, w)
		case *configv1.AdminToken:
			gone = o.GetExpiresAt() != nil && !o.GetExpiresAt().AsTime().After(time.Now())
		}
		if gone {
			return void("%s %s, which asked for this change, does not exist any more, is disabled, or has lost the right to make it. Reject the change.",
				of.kind.Name, of.name)
		}
	}
	return nil
}

func void(format string, args ...any) error {
	return openai.CodeApprovalVoid.New(format, args...)
}

// errDecided is the error of whoever decides after somebody else, or err where that is another one.
func errDecided(err error) error {
	if err != nil && !errors.Is(err, configstore.ErrNotFound) && !errors.Is(err, configstore.ErrConflict) {
		return err
	}
	return void("Somebody else has decided about this change, or it was withdrawn, at the same time.")
}

// reject ends the wait of a change, and says why.
func (s *server) reject(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.RejectRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	if len(asked.Reason) > maxReason {
		return openai.CodeInvalidValue.On("reason", "The member reason may have at most %d bytes.", maxReason)
	}
	found, err := s.visibleWaiting(r)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	if err := found.refuses(p); err != nil {
		return err
	}
	what := found.says()
	if asked.Reason != "" {
		what += "\n" + asked.Reason
	}
	if err := s.end(r.Context(), found, found.entry(r.Context(), actionReject, what)); err != nil {
		return errDecided(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, found.Approval)
}

// withdraw ends the wait of a change that the caller has asked for.
func (s *server) withdraw(w http.ResponseWriter, r *http.Request) error {
	found, err := s.visibleWaiting(r)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	if !found.of(p) {
		return openai.CodeInsufficientPermissions.New("Only who has asked for a change withdraws it. To end the change of somebody else, reject it.")
	}
	if err := s.end(r.Context(), found, found.entry(r.Context(), actionWithdraw, found.says())); err != nil {
		return errDecided(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeWaiting answers that a change waits.
func writeWaiting(w http.ResponseWriter, a *adminapi.Approval) error {
	return httpapi.WriteJSON(w, http.StatusAccepted, adminapi.Waiting{Pending: true, Approval: *a})
}

// waits returns what an object waits for; nil: nothing.
func (p *plan) waits(of ref) *adminapi.Approval {
	for _, h := range p.held {
		if h.Kind.Name == of.kind.Name && h.Name == of.name {
			return h.shown
		}
	}
	return nil
}
