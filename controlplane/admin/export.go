package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/redact"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
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

// exportAll answers with all objects that files describe, of one revision, such that apply takes them back.
func (s *server) exportAll(w http.ResponseWriter, r *http.Request) error {
	now, err := s.config.Store.Snapshot(r.Context(), configv1.KeyKind())
	if err != nil {
		return err
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
		return errs
	}
	slices.SortStableFunc(entries, func(a, b configstore.Entry) int {
		first, _ := exported(a)
		second, _ := exported(b)
		return cmp.Compare(first, second)
	})
	answer := adminapi.Export{Revision: now.Revision, Objects: make([]json.RawMessage, len(entries))}
	for i, e := range entries {
		if answer.Objects[i], err = configv1.MarshalJSON(redact.Object(e.Object)); err != nil {
			return err
		}
	}
	return httpapi.WriteJSON(w, http.StatusOK, answer)
}

// unreadable is the error of an object that is stored in a form that cannot be read.
func unreadable(e configstore.Entry) configv1.FieldError {
	return configv1.FieldError{Object: e.Kind.Name + " " + e.Name, Message: "cannot be read: " + e.Err.Error() +
		". Mend or delete it first."}
}

// pruneOf reads how an apply treats objects that it was not given.
func pruneOf(r *http.Request) (string, error) {
	switch values := r.URL.Query()["prune"]; {
	case len(values) > 1:
		return "", givenTwice("prune")
	case len(values) == 0, values[0] == "false":
		return adminapi.PruneNone, nil
	case values[0] == adminapi.PruneSome, values[0] == adminapi.PruneAll:
		return values[0], authz.Needs(r.Context(), authz.ConfigWrite)
	}
	return "", openai.CodeInvalidValue.On("prune", "The parameter prune must be true, all or false.")
}

// prune plans to delete what files describe and the plan does not name.
func (p *plan) prune(ctx context.Context, how string) error {
	if how == adminapi.PruneNone {
		return nil
	}
	var gone []ref
	stay := map[string]bool{} // kinds
	for _, c := range p.changes {
		stay[c.Kind] = true
	}
	for _, e := range p.before.Entries {
		_, ok := exported(e)
		switch {
		case !ok, p.planned(e.Kind, e.Name):
		case e.Err != nil:
			return configv1.Errors{unreadable(e)}
		default:
			gone = append(gone, ref{e.Kind, e.Name})
		}
	}
	var emptied []string
	for _, of := range gone {
		if how != adminapi.PruneAll && !stay[of.kind.Name] && !slices.Contains(emptied, of.kind.Name) {
			emptied = append(emptied, of.kind.Name)
		}
		if err := p.remove(of); err != nil {
			return err
		}
		if err := p.server.checkEmpty(ctx, of); err != nil {
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
