package admin

import (
	"context"
	"errors"
	"net/http"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// maxApplied bounds the body of an apply, in bytes: some ten times what 20,000 objects take. maxObjects bounds how
// many there are.
const (
	maxApplied = 32 << 20
	maxObjects = 50_000
)

func (s *server) apply(w http.ResponseWriter, r *http.Request) error {
	if err := authz.NeedsAny(r.Context(), authz.ConfigWrite, authz.KeysWrite, authz.AdminsWrite); err != nil {
		return err
	}
	body, err := httpapi.ReadBody(w, r, maxApplied)
	if err != nil {
		return err
	}
	docs, err := configv1.ParseJSON(body)
	if err != nil {
		return err
	}
	if len(docs) > maxObjects {
		return openai.CodeObjectTooLarge.New("An apply accepts at most %d objects. This one has %d.", maxObjects, len(docs))
	}
	if len(docs) == 0 {
		if err := authz.Needs(r.Context(), authz.ConfigWrite); err != nil {
			return err
		}
	}
	for _, d := range docs {
		if err := authz.Needs(r.Context(), authz.WriteScope(d.Kind)); err != nil {
			return err
		}
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	prune, err := pruneOf(r)
	if err != nil {
		return err
	}
	done, err := s.applyDocuments(r.Context(), docs, prune, dryRun)
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	for i, c := range done.changes {
		done.changes[i].Error = s.config.Plane.ObjectError(c.Kind, c.Name)
	}
	return writeChanges(w, done)
}

// applyDocuments reports everything that is wrong with any document at once. Prune says how it treats other objects.
func (s *server) applyDocuments(ctx context.Context, docs []configv1.Document, prune string,
	dryRun bool) (*plan, error) {
	refs := make([]ref, len(docs))
	for i, d := range docs {
		refs[i] = ref{d.Kind, d.Object.GetName()}
	}
	return s.write(ctx, change{refs: refs, dryRun: dryRun, many: true}, func(p *plan) error {
		var errs configv1.Errors
		for _, d := range docs {
			if err := ctx.Err(); err != nil { // the checks of many expressions take time
				return err
			}
			err := p.put(d.Object)
			invalid, ok := errors.AsType[configv1.Errors](err)
			if err != nil && !ok {
				return err
			}
			errs = append(errs, invalid...)
		}
		if len(errs) > 0 {
			return errs
		}
		return p.prune(ctx, prune)
	})
}
