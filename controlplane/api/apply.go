package api

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// maxApplied bounds the body of an apply, in bytes: some ten times what 20,000 objects take.
const maxApplied = 32 << 20

func (h objectHandlers) apply(w http.ResponseWriter, r *http.Request) error {
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
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	prune, err := pruneOf(r)
	if err != nil {
		return err
	}
	done, err := h.changes.ApplyDocuments(r.Context(), docs, prune, dryRun)
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := h.await(w, r, done); err != nil {
		return err
	}
	for i, c := range done.Changes {
		done.Changes[i].Error = h.config.Plane.ObjectError(c.Kind, c.Name)
	}
	return writeChanges(w, done)
}

// pruneOf reads how an apply treats objects that it was not given.
func pruneOf(r *http.Request) (string, error) {
	switch values := r.URL.Query()["prune"]; {
	case len(values) > 1:
		return "", givenTwice("prune")
	case len(values) == 0, values[0] == "false":
		return adminapi.PruneNone, nil
	case values[0] == adminapi.PruneSome, values[0] == adminapi.PruneAll:
		return values[0], nil
	}
	return "", openai.CodeInvalidValue.On("prune", "The parameter prune must be true, all or false.")
}
