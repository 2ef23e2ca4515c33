package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// versionsAtOnce is how many versions are shown of an object unless more are asked for.
const versionsAtOnce = 100

// history shows the versions of an object, or with ?revision= what it was then. Versions say who did what, as entries
// do.
func (s *server) history(w http.ResponseWriter, r *http.Request) error {
	of, err := versioned(r, authz.ReadScope)
	if err != nil {
		return err
	}
	now, err := s.config.Audit.History(r.Context())
	if errors.Is(err, configstore.ErrNotFound) && !r.URL.Query().Has("revision") {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Version]{Items: []adminapi.Version{}})
	}
	if err != nil {
		return err
	}
	if r.URL.Query().Has("revision") {
		v, err := s.version(r, now, of)
		if err != nil {
			return err
		}
		return writeVersion(w, of, v)
	}
	before, err := revisionOf(r, "after", false)
	if err != nil {
		return err
	}
	all, err := now.Of(r.Context(), of.kind, of.name, before, versionsAtOnce+1)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, pageOf(all))
}

// pageOf returns a page of versions, of which there is one more than it may have if it has a next. Those of one
// revision are on one page.
func pageOf(all []adminapi.Version) adminapi.Page[adminapi.Version] {
	page := adminapi.Page[adminapi.Version]{Items: []adminapi.Version{}}
	if n := versionsAtOnce; len(all) > n {
		for n > 1 && all[n-1].Revision == all[n].Revision {
			n--
		}
		all, page.Next = all[:n], strconv.FormatInt(all[n-1].Revision, 10)
	}
	for _, v := range all {
		v.Document, v.Epoch = nil, ""
		page.Items = append(page.Items, v)
	}
	return page
}

// writeVersion shows a version with its document, masked.
func writeVersion(w http.ResponseWriter, of ref, v adminapi.Version) error {
	v.Epoch = ""
	if v.Deleted {
		v.Document = nil
		return httpapi.WriteJSON(w, http.StatusOK, v)
	}
	o, err := of.kind.Unmarshal(v.Document)
	if err != nil {
		return notKept(of, v.Revision)
	}
	if v.Document, err = configv1.Marshal(redact.Object(o)); err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, v)
}

// versioned returns the object that a path is about, of a kind that has versions.
func versioned(r *http.Request, scope func(configv1.Kind) authz.Scope) (ref, error) {
	of, err := objectOf(r, scope)
	if err == nil && !audit.HasVersions(of.kind) {
		err = openai.CodeNotFound.New("No versions of a %s are kept: rights that were taken away must not come back.",
			of.kind.Name)
	}
	return of, err
}

func revisionOf(r *http.Request, name string, required bool) (int64, error) {
	given := r.URL.Query().Get(name)
	if given == "" && !required {
		return 0, nil
	}
	n, err := strconv.ParseInt(given, 10, 64)
	if err != nil || n < 1 {
		return 0, openai.CodeInvalidValue.On(name, "The parameter %s must be a revision of the history.", name)
	}
	return n, nil
}

// version returns what an object was at the revision that is asked for: its newest version that is not after it.
func (s *server) version(r *http.Request, now audit.History, of ref) (adminapi.Version, error) {
	revision, err := revisionOf(r, "revision", true)
	if err != nil {
		return adminapi.Version{}, err
	}
	found, err := now.Of(r.Context(), of.kind, of.name, revision+1, 1)
	if err != nil {
		return adminapi.Version{}, err
	}
	if len(found) == 0 {
		return adminapi.Version{}, notKept(of, revision)
	}
	return found[0], nil
}

func notKept(of ref, revision int64) error {
	return openai.CodeNotFound.New("The history has no %s %s at revision %d.", of.kind.Name, of.name, revision)
}

// rollbackOne makes an object what it was.
func (s *server) rollbackOne(w http.ResponseWriter, r *http.Request) error {
	of, err := versioned(r, authz.WriteScope)
	if err != nil {
		return err
	}
	if _, err := revisionOf(r, "revision", true); err != nil {
		return err
	}
	now, err := s.config.Audit.History(r.Context())
	if err != nil {
		return err
	}
	v, err := s.version(r, now, of)
	if err != nil {
		return err
	}
	return s.rollBack(w, r, []adminapi.Version{v})
}

// rollbackAll makes everything but keys what it was. Whoever lacks the right to any of it changes nothing.
func (s *server) rollbackAll(w http.ResponseWriter, r *http.Request) error {
	revision, err := revisionOf(r, "revision", true)
	if err != nil {
		return err
	}
	now, err := s.config.Audit.History(r.Context())
	if err != nil {
		return err
	}
	if revision < now.Began()-1 {
		return openai.CodeInvalidValue.On("revision", "The history begins at revision %d.", now.Began()-1)
	}
	at, after, err := now.Since(r.Context(), revision)
	if err != nil {
		return err
	}
	known := map[configstore.Ref]bool{}
	var all []adminapi.Version
	for _, v := range at {
		known[configstore.Ref{Kind: v.Kind, Name: v.Name}] = true
		all = append(all, v)
	}
	for _, v := range after {
		of := configstore.Ref{Kind: v.Kind, Name: v.Name}
		if known[of] || of.Kind == configv1.KeyKind().Name {
			continue
		}
		if !v.Created {
			return openai.CodeInvalidValue.On("revision",
				"The history does not keep what %s %s was at revision %d. Choose a later revision.", v.Kind, v.Name, revision)
		}
		v.Deleted, v.Document = true, nil // there was none
		all = append(all, v)
	}
	var wanted []adminapi.Version
	for _, v := range all {
		if v.Kind != configv1.KeyKind().Name {
			wanted = append(wanted, v)
		}
	}
	return s.rollBack(w, r, wanted)
}

func (s *server) rollBack(w http.ResponseWriter, r *http.Request, versions []adminapi.Version) error {
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	c := change{dryRun: dryRun, many: true, action: "rollback to revision " + r.URL.Query().Get("revision")}
	var of []ref
	for _, v := range versions {
		kind, ok := configv1.FindKind(v.Kind)
		if !ok {
			return fmt.Errorf("the history has the kind %q", v.Kind)
		}
		of = append(of, ref{kind, v.Name})
	}
	c.refs = of
	done, err := s.write(r.Context(), c, func(p *plan) error {
		var errs configv1.Errors
		for i, v := range versions {
			err := p.revert(r.Context(), of[i], v)
			invalid, ok := errors.AsType[configv1.Errors](err)
			if err != nil && !ok {
				return err
			}
			errs = append(errs, invalid...)
		}
		return errs.Err()
	})
	if err != nil {
		return err
	}
	if !dryRun {
		if err := s.await(w, r, done); err != nil {
			return err
		}
	}
	return writeChanges(w, done)
}

// revert plans to make an object what it was, by the rules of any other write of the caller.
func (p *plan) revert(ctx context.Context, of ref, v adminapi.Version) error {
	stored := p.before.Find(of.kind, of.name)
	if v.Deleted {
		if stored == nil {
			p.change(adminapi.Change{Kind: of.kind.Name, Name: of.name, Action: adminapi.Unchanged})
			return nil
		}
		if err := p.remove(of); err != nil {
			return err
		}
		return p.server.checkEmpty(ctx, of)
	}
	was, err := of.kind.Unmarshal(v.Document)
	if err != nil {
		return configv1.Errors{{Object: of.kind.Name + " " + of.name,
			Message: "is in the history in a form that this version does not read"}}
	}
	if k, ok := was.(*configv1.Key); ok {
		if was, err = p.limitsOf(of, k); err != nil {
			return err
		}
	} else if err := p.recall(was); err != nil {
		return err
	}
	return p.put(was)
}

// limitsOf returns a key as it is, with the limits and budgets that it had. A key that was revoked, disabled or
// narrowed stays so.
func (p *plan) limitsOf(of ref, was *configv1.Key) (configv1.Object, error) {
	stored, err := p.existing(of)
	if err != nil {
		return nil, err
	}
	k := proto.CloneOf(stored.(*configv1.Key))
	k.Hash, k.Hint = nil, ""
	k.Retired = nil
	if r := stored.(*configv1.Key).GetRetired(); r != nil {
		k.Retired = &configv1.RetiredKey{ExpiresAt: r.GetExpiresAt()}
	}
	k.Limits, k.Budgets = was.GetLimits(), was.GetBudgets()
	return k, nil
}

// recall completes what the history says of an object with its credentials. One that is stored now stays: what was
// rotated is not undone, and a sealed value goes nowhere but where it is sent already. An object that was deleted
// comes back with the credentials that it had, for they were stored together with where they are sent. Where an
// object is there without the credential that it had, only who may do everything gives it back.
func (p *plan) recall(o configv1.Object) error {
	stored := p.stored(configv1.KindOf(o), o.GetName())
	opened := credentialsOf(p.server.opened(o))
	for _, c := range configv1.Credentials(o) {
		if c.Credential.GetSealed() == "" {
			continue
		}
		switch {
		case sealedIn(stored, c.Field) != "":
			c.Credential.Source = &configv1.Credential_Sealed{Sealed: configv1.Redacted}
			continue
		case stored != nil && !p.caller.May(authz.Everything):
			return everythingFor(c.Field, "to bring back a credential that the object has no more")
		case opened[c.Field].GetValue() == "":
			return configv1.Errors{{Object: configv1.Label(o), Field: c.Field,
				Message: "was sealed under another root secret, and cannot be brought back"}}
		}
		c.Credential.Source = &configv1.Credential_Value{Value: opened[c.Field].GetValue()}
	}
	return nil
}
