package config

import (
	"context"
	"errors"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// maxObjects bounds how many objects are applied at once.
const maxObjects = 50_000

// ApplyDocuments stores documents. It reports everything that is wrong with any of them at once. Prune says how it
// treats other objects.
func (s *Service) ApplyDocuments(ctx context.Context, docs []configv1.Document, prune string,
	dryRun bool) (*Plan, error) {
	if len(docs) > maxObjects {
		return nil, openai.CodeObjectTooLarge.New("An apply accepts at most %d objects. This one has %d.", maxObjects, len(docs))
	}
	if len(docs) == 0 {
		if err := authz.Needs(ctx, authz.ConfigWrite); err != nil {
			return nil, err
		}
	}
	for _, d := range docs {
		if err := authz.Needs(ctx, authz.WriteScope(d.Kind)); err != nil {
			return nil, err
		}
	}
	if prune != adminapi.PruneNone {
		if err := authz.Needs(ctx, authz.ConfigWrite); err != nil {
			return nil, err
		}
	}
	refs := make([]Ref, len(docs))
	for i, d := range docs {
		refs[i] = Ref{d.Kind, d.Object.GetName()}
	}
	return s.write(ctx, change{refs: refs, dryRun: dryRun, many: true}, func(p *Plan) error {
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
