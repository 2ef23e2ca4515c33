package api

import (
	"net/http"
	"strconv"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// history shows the versions of an object, or with ?revision= what it was then.
func (h objectHandlers) history(w http.ResponseWriter, r *http.Request) error {
	of, err := versioned(r, authz.ReadScope)
	if err != nil {
		return err
	}
	if r.URL.Query().Has("revision") {
		revision, err := revisionOf(r, "revision", true)
		if err != nil {
			return err
		}
		v, err := h.changes.Version(r.Context(), of, revision)
		if err != nil {
			return err
		}
		return httpapi.WriteJSON(w, http.StatusOK, v)
	}
	before, err := revisionOf(r, "after", false)
	if err != nil {
		return err
	}
	page, err := h.changes.Versions(r.Context(), of, before)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, page)
}

// versioned returns the object that a path is about, of a kind that has versions.
func versioned(r *http.Request, scope func(configv1.Kind) authz.Scope) (config.Ref, error) {
	of, err := objectOf(r, scope)
	if err == nil && !audit.HasVersions(of.Kind) {
		err = openai.CodeNotFound.New("No versions of a %s are kept: rights that were taken away must not come back.",
			of.Kind.Name)
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

// rollbackOne makes an object what it was.
func (h objectHandlers) rollbackOne(w http.ResponseWriter, r *http.Request) error {
	of, err := versioned(r, authz.WriteScope)
	if err != nil {
		return err
	}
	return h.rollBack(w, r, func(revision int64, dryRun bool) (*config.Plan, error) {
		return h.changes.RollBackObject(r.Context(), of, revision, dryRun)
	})
}

// rollbackAll makes everything but keys what it was.
func (h objectHandlers) rollbackAll(w http.ResponseWriter, r *http.Request) error {
	return h.rollBack(w, r, func(revision int64, dryRun bool) (*config.Plan, error) {
		return h.changes.RollBack(r.Context(), revision, dryRun)
	})
}

func (h objectHandlers) rollBack(w http.ResponseWriter, r *http.Request,
	to func(int64, bool) (*config.Plan, error)) error {
	revision, err := revisionOf(r, "revision", true)
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := to(revision, dryRun)
	if err != nil {
		return err
	}
	if !dryRun {
		if err := h.await(w, r, done); err != nil {
			return err
		}
	}
	return writeChanges(w, done)
}
