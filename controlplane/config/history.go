package config

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
)

// versionsAtOnce is how many versions are shown of an object unless more are asked for.
const versionsAtOnce = 100

// Versions returns a page of the versions of an object, before a revision if that is not 0. Versions say who did what,
// as entries do.
func (s *Service) Versions(ctx context.Context, of Ref, before int64) (adminapi.Page[adminapi.Version], error) {
	none := adminapi.Page[adminapi.Version]{Items: []adminapi.Version{}}
	now, err := s.options.Audit.History(ctx)
	if errors.Is(err, configstore.ErrNotFound) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	all, err := now.Of(ctx, of.Kind, of.Name, before, versionsAtOnce+1)
	if err != nil {
		return none, err
	}
	return pageOf(all), nil
}

// pageOf returns a page of versions. If there is a next page, all has one version more than a page. Versions of
// one revision are on one page.
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

// Version returns what an object was at a revision, with its document, redacted.
func (s *Service) Version(ctx context.Context, of Ref, revision int64) (adminapi.Version, error) {
	now, err := s.options.Audit.History(ctx)
	if err != nil {
		return adminapi.Version{}, err
	}
	v, err := versionAt(ctx, now, of, revision)
	if err != nil {
		return v, err
	}
	v.Epoch = ""
	if v.Deleted {
		v.Document = nil
		return v, nil
	}
	o, err := of.Kind.Unmarshal(v.Document)
	if err != nil {
		return v, notKept(of, v.Revision)
	}
	v.Document, err = configv1.Marshal(redact.Object(o))
	return v, err
}

// versionAt returns the newest version of an object that is not after a revision.
func versionAt(ctx context.Context, now audit.History, of Ref, revision int64) (adminapi.Version, error) {
	found, err := now.Of(ctx, of.Kind, of.Name, revision+1, 1)
	if err != nil {
		return adminapi.Version{}, err
	}
	if len(found) == 0 {
		return adminapi.Version{}, notKept(of, revision)
	}
	return found[0], nil
}

func notKept(of Ref, revision int64) error {
	return openai.CodeNotFound.New("The history has no %s %s at revision %d.", of.Kind.Name, of.Name, revision)
}

// RollBackObject makes an object what it was at a revision.
func (s *Service) RollBackObject(ctx context.Context, of Ref, revision int64, dryRun bool) (*Plan, error) {
	now, err := s.options.Audit.History(ctx)
	if err != nil {
		return nil, err
	}
	v, err := versionAt(ctx, now, of, revision)
	if err != nil {
		return nil, err
	}
	return s.rollBack(ctx, []adminapi.Version{v}, revision, dryRun)
}

// RollBack makes everything but keys what it was at a revision. Whoever lacks the right to any of it changes nothing.
func (s *Service) RollBack(ctx context.Context, revision int64, dryRun bool) (*Plan, error) {
	now, err := s.options.Audit.History(ctx)
	if err != nil {
		return nil, err
	}
	if revision < now.Began()-1 {
		return nil, openai.CodeInvalidValue.On("revision", "The history begins at revision %d.",
			now.Began()-1)
	}
	at, after, err := now.Since(ctx, revision)
	if err != nil {
		return nil, err
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
			return nil, openai.CodeInvalidValue.On("revision",
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
	return s.rollBack(ctx, wanted, revision, dryRun)
}

func (s *Service) rollBack(ctx context.Context, versions []adminapi.Version, revision int64,
	dryRun bool) (*Plan, error) {
	c := change{dryRun: dryRun, many: true, action: "rollback to revision " + strconv.FormatInt(revision, 10)}
	var of []Ref
	for _, v := range versions {
		kind, ok := configv1.FindKind(v.Kind)
		if !ok {
			return nil, fmt.Errorf("the history has the kind %q", v.Kind)
		}
		of = append(of, Ref{kind, v.Name})
	}
	c.refs = of
	return s.write(ctx, c, func(p *Plan) error {
		var errs configv1.Errors
		for i, v := range versions {
			err := p.revert(ctx, of[i], v)
			invalid, ok := errors.AsType[configv1.Errors](err)
			if err != nil && !ok {
				return err
			}
			errs = append(errs, invalid...)
		}
		return errs.Err()
	})
}

// revert plans to make an object what it was, by the rules of any other write of the caller.
func (p *Plan) revert(ctx context.Context, of Ref, v adminapi.Version) error {
	stored := p.before.Find(of.Kind, of.Name)
	if v.Deleted {
		if stored == nil {
			p.change(adminapi.Change{Kind: of.Kind.Name, Name: of.Name, Action: adminapi.Unchanged})
			return nil
		}
		if err := p.remove(of); err != nil {
			return err
		}
		return p.service.checkEmpty(ctx, of)
	}
	was, err := of.Kind.Unmarshal(v.Document)
	if err != nil {
		return configv1.Errors{{Object: of.Kind.Name + " " + of.Name,
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
func (p *Plan) limitsOf(of Ref, was *configv1.Key) (configv1.Object, error) {
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

// recall completes a version of an object with its credentials. A stored credential stays: a rollback does not
// undo a rotation, and a sealed value goes only where it is sent already. A deleted object comes back with its
// credentials, because they were stored together with their destinations. If the object exists without its former
// credential, only a principal with every scope gives it back.
func (p *Plan) recall(o configv1.Object) error {
	stored := p.stored(configv1.KindOf(o), o.GetName())
	opened := credentialsOf(p.service.opened(o))
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
