package kubernetes

import (
	"context"
	"errors"
	"net/http"

	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
)

// declare is what writes declared objects: all, or none.
type declare func(ctx context.Context, all []owned.Declared, held ...clientv3.Cmp) (*config.Plan, error)

// settle writes as many of declared objects as can be, and says of the others why they cannot. It returns an error if
// the store did not do it: then it is tried again.
func settle(ctx context.Context, write declare, all []owned.Declared, held clientv3.Cmp) (
	results map[configstore.Ref]result, wrote bool, err error) {
	results = map[configstore.Ref]result{}
	for len(all) > 0 {
		p, err := write(ctx, all, held)
		var refused config.Refusals
		switch {
		case err == nil:
			for _, d := range all {
				of := config.Ref{Kind: d.Kind, Name: d.Name}
				results[d.Ref()] = result{held: p.Held(d.Ref()), revision: p.RevisionOf(of)}
			}
			return results, wrote || p.Revision != 0, nil
		case errors.As(err, &refused):
			var rest []owned.Declared
			for _, d := range all {
				if why := refused[d.Ref()]; why != nil {
					results[d.Ref()] = result{err: why}
				} else {
					rest = append(rest, d)
				}
			}
			if len(rest) == len(all) {
				return results, wrote, err
			}
			all = rest
		case !permanent(err):
			return results, wrote, err
		case len(all) == 1:
			results[all[0].Ref()] = result{err: err}
			return results, wrote, nil
		default: // it does not say which of them it is of
			for _, half := range [][]owned.Declared{all[:len(all)/2], all[len(all)/2:]} {
				part, did, err := settle(ctx, write, half, held)
				if err != nil {
					return results, wrote, err
				}
				wrote = wrote || did
				for ref, r := range part {
					results[ref] = r
				}
			}
			return results, wrote, nil
		}
	}
	return results, wrote, nil
}

// permanent reports whether the same write fails again.
func permanent(err error) bool {
	if _, ok := errors.AsType[configv1.Errors](err); ok {
		return true
	}
	if errors.Is(err, configstore.ErrTooLarge) || errors.Is(err, configstore.ErrNotFound) {
		return true
	}
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.Status < http.StatusInternalServerError && e.Code != openai.CodeConflict
}
