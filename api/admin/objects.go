package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// objectPath returns the path of what a prefix has for an object. Slashes in its name are not escaped.
func objectPath(prefix string, kind configv1.Kind, name string) string {
	return prefix + kind.Plural + "/" + strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
}

const apiPath = "/admin/v1/"

// document returns an object as a body.
func document(o configv1.Object) (json.RawMessage, error) { return configv1.MarshalJSON(o) }

func documents[T configv1.Object](objects []T) ([]json.RawMessage, error) {
	docs := make([]json.RawMessage, len(objects))
	for i, o := range objects {
		doc, err := document(o)
		if err != nil {
			return nil, err
		}
		docs[i] = doc
	}
	return docs, nil
}

// ListPage returns a part of the objects of a kind, sorted by name.
func (c ObjectCalls) ListPage(ctx context.Context, kind configv1.Kind, o ListOptions) (ItemPage, error) {
	return ask[ItemPage](ctx, c.caller, request{method: http.MethodGet, path: apiPath + kind.Plural, query: o.values()})
}

// listPage is how many objects List asks for at once.
const listPage = 1000

// List returns the objects of a kind, sorted by name.
func (c ObjectCalls) List(ctx context.Context, kind configv1.Kind) ([]Item, error) {
	return allOf(func(after string) (ItemPage, error) {
		return c.ListPage(ctx, kind, ListOptions{Limit: listPage, After: after})
	})
}

// allOf returns the items of all pages.
func allOf[T any](page func(after string) (Page[T], error)) ([]T, error) {
	var all []T
	for after := ""; ; {
		p, err := page(after)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Items...)
		if after = p.Next; after == "" {
			return all, nil
		}
	}
}

// Get returns one object. The error is a 404 if there is none.
func (c ObjectCalls) Get(ctx context.Context, kind configv1.Kind, name string) (Item, error) {
	return ask[Item](ctx, c.caller, request{method: http.MethodGet, path: objectPath(apiPath, kind, name)})
}

// Create stores an object that is not there yet, and returns it as it is then. The error is a 409 if it is there.
func (c ObjectCalls) Create(ctx context.Context, o configv1.Object) (Item, error) {
	body, err := document(o)
	if err != nil {
		return Item{}, err
	}
	return ask[Item](ctx, c.caller, request{
		method: http.MethodPost, path: apiPath + configv1.KindOf(o).Plural, body: body,
		waits: true})
}

// Put stores one object, and returns it as it is then. If revision is not 0, the object must still have it: the
// error is a 412 otherwise.
func (c ObjectCalls) Put(ctx context.Context, o configv1.Object, revision int64) (Item, error) {
	body, err := document(o)
	if err != nil {
		return Item{}, err
	}
	return ask[Item](ctx, c.caller, request{
		method: http.MethodPut, path: objectPath(apiPath, configv1.KindOf(o), o.GetName()),
		body: body, revision: revision, waits: true})
}

// Delete removes one object. A key that is deleted is revoked.
func (c ObjectCalls) Delete(ctx context.Context, kind configv1.Kind, name string) error {
	return c.caller.call(ctx, request{method: http.MethodDelete, path: objectPath(apiPath, kind, name), waits: true}, nil)
}

// How an apply treats objects that are stored and not given.
const (
	PruneNone = ""     // they stay
	PruneSome = "true" // they are deleted, but not all of a kind
	PruneAll  = "all"  // they are deleted
)

// Apply stores all objects or none. With dryRun it stores none and says what it would have done.
func (c ObjectCalls) Apply(ctx context.Context, objects []configv1.Object, dryRun bool) (ApplyAnswer, error) {
	return c.ApplyPruning(ctx, objects, PruneNone, dryRun)
}

// ApplyPruning is Apply, and also deletes objects that are not given. What a file does not describe stays: keys,
// accounts, tokens, listings and fine-tuned models.
func (c ObjectCalls) ApplyPruning(ctx context.Context, objects []configv1.Object, prune string,
	dryRun bool) (ApplyAnswer, error) {
	docs, err := documents(objects)
	if err != nil {
		return ApplyAnswer{}, err
	}
	query := valuesOf(DryRun.If(dryRun))
	if prune != PruneNone {
		query.Set("prune", prune)
	}
	return ask[ApplyAnswer](ctx, c.caller, request{
		method: http.MethodPost, path: apiPath + "apply", query: query, body: docs,
		waits: true})
}

// RotateKey makes a key in the place of another, which keeps its id.
func (c ObjectCalls) RotateKey(ctx context.Context, id string, r RotateRequest) (NewKey, error) {
	return ask[NewKey](ctx, c.caller, request{
		method: http.MethodPost, path: pathOf("/admin/v1/keys/%s/rotate", id), body: r,
		waits: true})
}

// History returns the versions of an object, newest first.
func (c ObjectCalls) History(ctx context.Context, kind configv1.Kind, name string) ([]Version, error) {
	return allOf(func(after string) (VersionPage, error) { return c.HistoryPage(ctx, kind, name, after) })
}

// HistoryPage returns a page of the versions of an object, newest first: that after the Next of another.
func (c ObjectCalls) HistoryPage(ctx context.Context, kind configv1.Kind, name, after string) (VersionPage, error) {
	return ask[VersionPage](ctx, c.caller, request{
		method: http.MethodGet, path: objectPath(apiPath+"history/", kind, name),
		query: ListOptions{After: after}.values()})
}

// Rollback makes one object what it was at a revision, or with the zero Kind all that have a history.
func (c ObjectCalls) Rollback(ctx context.Context, kind configv1.Kind, name string, revision int64,
	dryRun bool) (ApplyAnswer, error) {
	path := apiPath + "rollback"
	if kind.Name != "" {
		path = objectPath(path+"/", kind, name)
	}
	query := valuesOf(DryRun.If(dryRun))
	query.Set("revision", strconv.FormatInt(revision, 10))
	return ask[ApplyAnswer](ctx, c.caller, request{method: http.MethodPost, path: path, query: query, waits: true})
}

// TestPolicies evaluates policies over the request log. It takes the filters of Requests. Without policies, the
// stored ones that are not disabled are evaluated.
func (c RequestCalls) TestPolicies(ctx context.Context, policies []*configv1.Policy,
	filters map[string]string) (PolicyTrial, error) {
	docs, err := documents(policies)
	if err != nil {
		return PolicyTrial{}, err
	}
	return ask[PolicyTrial](ctx, c.caller, request{method: http.MethodPost, path: apiPath + "policies/test",
		query: ListOptions{Filters: filters}.values(), body: docs})
}
