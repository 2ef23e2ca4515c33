package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// objectHandlers read and change objects of the configuration.
type objectHandlers struct{ *server }

func (h objectHandlers) routes() []route {
	return []route{
		{operation: onList(h.list), tenants: checked},
		{operation: onCreate(h.post), tenants: checked},
		{operation: onGet(h.get), tenants: checked},
		{operation: onPut(h.put), tenants: checked},
		{operation: onDelete(h.delete), tenants: checked},
		{operation: onApply(h.apply), timeout: applyTimeout},
		{operation: onExport(h.changes.Export), scope: authz.ConfigRead, timeout: exportTimeout, whole: true},
		{operation: onHistory(h.history), scope: authz.AuditRead},
		{operation: onRollbackOne(h.rollbackOne), timeout: applyTimeout},
		{operation: onRollback(h.rollbackAll), scope: authz.ConfigWrite, timeout: applyTimeout},
		{operation: onTryProvider(h.tryProvider), scope: authz.ConfigWrite, timeout: 15 * time.Second},
		{operation: onTestProvider(h.testProvider), scope: authz.ConfigWrite, timeout: 15 * time.Second},
	}
}

func (h objectHandlers) get(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.ReadScope)
	if err != nil {
		return err
	}
	entry, err := h.config.Store.Get(r.Context(), of.Kind, of.Name)
	if err != nil {
		return err
	}
	p, _ := authz.PrincipalOf(r.Context())
	if !p.Sees(entry.Object) {
		return fmt.Errorf("%s %s: %w", of.Kind.Name, of.Name, configstore.ErrNotFound)
	}
	if tags := r.Header.Get("If-None-Match"); tags != "" && matches(tags, &entry) {
		w.Header().Set("ETag", etag(entry.Revision))
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return h.writeEntry(w, r, http.StatusOK, entry)
}

// post creates an object. Keys and tokens of administration have handlers of their own.
func (h objectHandlers) post(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	if err := authz.NeedsKind(r.Context(), kind, authz.WriteScope(kind)); err != nil {
		return err
	}
	object, err := h.body(w, r, kind)
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := h.changes.Create(r.Context(), object, dryRun)
	if err != nil {
		return err
	}
	return h.answerStored(w, r, done, config.Ref{Kind: kind, Name: object.GetName()}, dryRun)
}

func (h objectHandlers) put(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.WriteScope)
	if err != nil {
		return err
	}
	object, err := h.body(w, r, of.Kind)
	if err != nil {
		return err
	}
	if object.GetName() != of.Name {
		return openai.CodeInvalidObject.On("name", "The object's name must be the name in the path, %q.",
			of.Name)
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := h.changes.Put(r.Context(), object, dryRun, preconditionOf(r))
	if err != nil {
		return err
	}
	return h.answerStored(w, r, done, of, dryRun)
}

func (h objectHandlers) delete(w http.ResponseWriter, r *http.Request) error {
	of, err := objectOf(r, authz.WriteScope)
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, err := h.changes.Delete(r.Context(), of, dryRun, preconditionOf(r))
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := h.await(w, r, done); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h objectHandlers) list(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	if err := authz.NeedsKind(r.Context(), kind, authz.ReadScope(kind)); err != nil {
		return err
	}
	asked, err := optionsOf(r)
	if err != nil {
		return err
	}
	page := adminapi.ItemPage{Items: []adminapi.Item{}}
	entries, next, err := h.changes.List(r.Context(), kind, asked)
	page.Next = next
	if err != nil {
		return err
	}
	for _, e := range entries {
		page.Items = append(page.Items, h.item(r.Context(), e))
	}
	return httpapi.WriteJSON(w, http.StatusOK, page)
}

// testProvider spends the operator's money at worst, and so takes the scope of those who may change the provider.
func (h objectHandlers) testProvider(ctx context.Context, name string) (adminapi.ProviderTest, error) {
	entry, err := h.config.Store.Get(ctx, configv1.KindOf((*configv1.Provider)(nil)), name)
	if err != nil {
		return adminapi.ProviderTest{}, err
	}
	p, ok := entry.Object.(*configv1.Provider)
	if !ok {
		return adminapi.ProviderTest{Message: unreadable(entry)}, nil
	}
	return h.tested(ctx, p)
}

// tryProvider tests a provider that is not stored. Before its credential is used, everything is checked that its
// creation checks: a variable or a file goes only where it may.
func (h objectHandlers) tryProvider(ctx context.Context, body adminapi.Object) (adminapi.ProviderTest, error) {
	object, err := configv1.KindOf((*configv1.Provider)(nil)).ParseJSON(body)
	if err != nil {
		return adminapi.ProviderTest{}, err
	}
	if object, err = h.changes.AsCreated(ctx, object); err != nil {
		return adminapi.ProviderTest{}, err
	}
	p, ok := object.(*configv1.Provider)
	if !ok {
		return adminapi.ProviderTest{}, openai.CodeInvalidObject.New("The body must be a Provider.")
	}
	return h.tested(ctx, p)
}

// tested tests a provider, and writes into the audit log what came of it: its credential was used.
func (h objectHandlers) tested(ctx context.Context, p *configv1.Provider) (adminapi.ProviderTest, error) {
	found, err := h.config.Plane.TestProvider(ctx, p)
	if err != nil {
		return found, err
	}
	action := adminapi.ActionTest
	if !found.OK {
		action = adminapi.ActionTestFailed
	}
	return found, h.note(ctx, action, configv1.KindOf(p).Name, p.GetName(), found.Message)
}

// unreadable says why a stored object cannot be tested.
func unreadable(e configstore.Entry) string {
	return "The stored object cannot be read: " + e.Err.Error()
}
