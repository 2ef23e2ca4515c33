package config

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
)

// exported returns the place of a stored object in an export, or false for one that files do not describe: what others
// refer to comes first. Keys, accounts and tokens cannot be stored from a file. The gateway itself writes listings. No
// prune deletes the proof, or what takes a second person: audit sinks, the retention and approval rules are not among
// them.
func exported(e configstore.Entry) (int, bool) {
	if m, ok := e.Object.(*configv1.Model); ok && m.GetFineTuned() != nil {
		return 0, false // the job service wrote it
	}
	place := int(e.Kind.Options.GetExport())
	return place, place > 0
}

// Export returns all objects that files describe, of one revision, such that ApplyDocuments takes them back.
func (s *Service) Export(ctx context.Context) (adminapi.Export, error) {
	none := adminapi.Export{}
	now, err := s.options.Store.Snapshot(ctx, configv1.KeyKind())
	if err != nil {
		return none, err
	}
	var entries []configstore.Entry
	var errs configv1.Errors
	for _, e := range now.Entries {
		if _, ok := exported(e); !ok {
			continue
		}
		if e.Err != nil {
			errs = append(errs, unreadable(e))
		}
		entries = append(entries, e)
	}
	if len(errs) > 0 {
		return none, errs
	}
	slices.SortStableFunc(entries, func(a, b configstore.Entry) int {
		first, _ := exported(a)
		second, _ := exported(b)
		return cmp.Compare(first, second)
	})
	answer := adminapi.Export{Revision: now.Revision, Objects: make([]json.RawMessage, len(entries))}
	for i, e := range entries {
		if answer.Objects[i], err = configv1.MarshalJSON(redact.Object(e.Object)); err != nil {
			return none, err
		}
	}
	return answer, nil
}

// unreadable is the error of an object that is stored in a form that cannot be read.
func unreadable(e configstore.Entry) configv1.FieldError {
	return configv1.FieldError{Object: e.Kind.Name + " " + e.Name, Message: "cannot be read: " + e.Err.Error() +
		". Mend or delete it first."}
}

// prune plans to delete what files describe and the plan does not name.
func (p *Plan) prune(ctx context.Context, how string) error {
	if how == adminapi.PruneNone {
		return nil
	}
	var gone []Ref
	stay := map[string]bool{} // kinds
	for _, c := range p.Changes {
		stay[c.Kind] = true
	}
	for _, e := range p.before.Entries {
		_, ok := exported(e)
		switch {
		case !ok, p.planned(e.Kind, e.Name), p.owned.Elsewhere(e.Kind, e.Name):
		case e.Err != nil:
			return configv1.Errors{unreadable(e)}
		default:
			gone = append(gone, Ref{e.Kind, e.Name})
		}
	}
	var emptied []string
	for _, of := range gone {
		if how != adminapi.PruneAll && !stay[of.Kind.Name] && !slices.Contains(emptied, of.Kind.Name) {
			emptied = append(emptied, of.Kind.Name)
		}
		if err := p.remove(of); err != nil {
			return err
		}
		if err := p.service.checkEmpty(ctx, of); err != nil {
			return err
		}
	}
	if len(emptied) > 0 {
		return openai.CodeInvalidValue.On("prune",
			"This would delete every object of the kind %s. If you want that, use prune=all (--yes).",
			strings.Join(emptied, ", "))
	}
	return nil
}
