package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// pageSize is how many lines a list has.
const pageSize = 50

// A listData is what a list of objects shows.
type listData struct {
	Items   []adminapi.Item
	Query   url.Values
	Next    string // address of the next page, or empty
	First   string // of the first one, where this is not it
	Filters []string
}

// list reads a page of the objects of a kind, as the query of the address says.
func (v *visit) list(r *http.Request, kind configv1.Kind, filters ...string) (listData, error) {
	q := r.URL.Query()
	o := adminapi.ListOptions{After: q.Get("after"), Limit: pageSize, Query: strings.TrimSpace(q.Get("q")),
		Filters: map[string]string{}}
	for _, name := range filters {
		o.Filters[name] = q.Get(name)
	}
	page, err := v.api.ListPage(r.Context(), kind, o)
	data := listData{Items: page.Items, Query: q, Filters: filters}
	data.Next, data.First = pages(r, page.Next)
	return data, err
}

// Filtered reports whether only a part of the objects is asked for.
func (d listData) Filtered() bool {
	for _, name := range append([]string{"q", "after"}, d.Filters...) {
		if d.Query.Get(name) != "" {
			return true
		}
	}
	return false
}

// pages returns the addresses of the next and of the first page of a list.
func pages(r *http.Request, next string) (nextPage, firstPage string) {
	q := r.URL.Query()
	if q.Get("after") != "" {
		q.Del("after")
		firstPage = r.URL.Path + "?" + q.Encode()
	}
	if next != "" {
		q.Set("after", next)
		nextPage = r.URL.Path + "?" + q.Encode()
	}
	return nextPage, firstPage
}

func (v *visit) keys(w http.ResponseWriter, r *http.Request) error {
	data, err := v.list(r, configv1.KeyKind(), "organization", "project", "disabled")
	if err != nil {
		return err
	}
	return v.render(w, "keys", "Keys", data)
}

// A keyData is what the pages of one key show.
type keyData struct {
	Key      *configv1.Key
	Revision int64
	Error    string
	Consumed adminapi.Consumption
	// Whether what is used could not be read.
	NoConsumption bool
	Organizations []adminapi.Item
	Projects      []adminapi.Item
	CreateMissing bool             // of a new key: its organization and project too, where there are none
	New           *adminapi.NewKey // at the only time at which it is shown
	Grace         int64
	Snippets      []snippet
	Activity      *activity
	Pending       bool // the new one is not in force everywhere yet
}

// suggest adds what the fields of a form suggest. That there is nothing to suggest is no error.
func (v *visit) suggest(ctx context.Context, data *keyData) {
	for kind, list := range map[string]*[]adminapi.Item{"organizations": &data.Organizations,
		"projects": &data.Projects} {
		if page, err := v.api.ListPage(ctx, kindNamed(kind), adminapi.ListOptions{Limit: 200}); err == nil {
			*list = page.Items
		}
	}
}

func (v *visit) newKey(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	data := keyData{Key: &configv1.Key{Organization: q.Get("organization"), Project: q.Get("project")}}
	v.suggest(r.Context(), &data)
	return v.render(w, "key-new", "New key", data)
}

// readKey puts what a form says into a key.
func readKey(f url.Values, k *configv1.Key) error {
	k.DisplayName = strings.TrimSpace(f.Get("display_name"))
	k.Organization, k.Project = strings.TrimSpace(f.Get("organization")), strings.TrimSpace(f.Get("project"))
	k.Models, k.Endpoints, k.Addresses = listOf(f.Get("models")), listOf(f.Get("endpoints")), listOf(f.Get("addresses"))
	k.Budgets = budgetsOf(f)
	var errLimits, errTime, errPairs error
	k.Limits, errLimits = limitsOf(f)
	k.ExpiresAt, errTime = timeOf(f.Get("expires_at"))
	k.Metadata, errPairs = pairsOf(f.Get("metadata"))
	return firstError(errLimits, errTime, errPairs)
}

func requestOf(k *configv1.Key) adminapi.KeyRequest {
	r := adminapi.KeyRequest{
		DisplayName: k.GetDisplayName(), Organization: k.GetOrganization(), Project: k.GetProject(), Models: k.GetModels(),
		Endpoints: k.GetEndpoints(), Addresses: k.GetAddresses(), Metadata: k.GetMetadata(),
	}
	if t := k.GetExpiresAt(); t != nil {
		at := t.AsTime()
		r.ExpiresAt = &at
	}
	for _, l := range k.GetLimits() {
		limit := adminapi.Limit{Domain: l.GetDomain(), RequestsPerUnit: l.GetRequestsPerUnit(), Model: l.GetModel()}
		if l.GetUnit() != configv1.Unit_UNIT_UNSPECIFIED {
			limit.Unit = l.GetUnit().String()
		}
		r.Limits = append(r.Limits, limit)
	}
	for _, b := range k.GetBudgets() {
		r.Budgets = append(r.Budgets, adminapi.Budget{Unit: b.GetUnit().String(), USD: b.GetUsd()})
	}
	return r
}

func (v *visit) createKey(w http.ResponseWriter, r *http.Request) error {
	data := keyData{Key: &configv1.Key{}, CreateMissing: r.PostForm.Has("create_missing")}
	err := readKey(r.PostForm, data.Key)
	if err == nil {
		asked := requestOf(data.Key)
		asked.CreateMissing = data.CreateMissing
		var made adminapi.NewKey
		if made, err = v.api.CreateKey(r.Context(), asked); made.Key != "" { // also of one that waits for approval
			data.Key.Name, data.New = made.ID, &made
			return v.showNew(w, data)
		}
	}
	if message, ok := refused(err); ok {
		v.suggest(r.Context(), &data)
		return v.renderStatus(w, http.StatusUnprocessableEntity, "key-new", "New key", data, message)
	}
	return err
}

// aKey reads the key that a path names.
func (v *visit) aKey(r *http.Request) (keyData, error) {
	item, err := v.api.Get(r.Context(), configv1.KeyKind(), r.PathValue("name"))
	if err != nil {
		return keyData{}, err
	}
	k, ok := item.Object.(*configv1.Key)
	if !ok {
		return keyData{}, errNoPage
	}
	return keyData{Key: k, Revision: item.Status.Revision, Error: item.Status.Error}, nil
}

func (v *visit) showKey(w http.ResponseWriter, r *http.Request) error {
	data, err := v.aKey(r)
	if err != nil {
		return err
	}
	return v.renderKey(w, r, http.StatusOK, data, "")
}

func (v *visit) renderKey(w http.ResponseWriter, r *http.Request, status int, data keyData, problem string) error {
	var err error
	if data.Activity, err = v.activityOf(r, "key", data.Key.GetName(), "model", "Model"); err != nil {
		return err
	}
	if data.Consumed, err = v.api.KeyConsumption(r.Context(), data.Key.GetName()); err != nil {
		data.NoConsumption = true
	}
	if v.principal.May(admin.KeysWrite) {
		v.suggest(r.Context(), &data)
	}
	return v.renderStatus(w, status, "key", data.Key.GetDisplayName(), data, problem)
}

// changeKey does what a button of the page of a key says.
func (v *visit) changeKey(w http.ResponseWriter, r *http.Request) error {
	data, err := v.aKey(r)
	if err != nil {
		return err
	}
	path := pathTo("keys", data.Key.GetName())
	switch action := r.PostForm.Get("action"); action {
	case "save":
		changed := proto.CloneOf(data.Key)
		if err = readKey(r.PostForm, changed); err == nil {
			_, err = v.api.Put(r.Context(), changed, revisionOf(r))
		}
		if message, ok := refused(err); ok {
			data.Key = changed
			return v.renderKey(w, r, http.StatusUnprocessableEntity, data, message)
		}
		return v.done(w, r, err, path, "saved")
	case "disable", "enable":
		data.Key.Disabled = action == "disable"
		_, err = v.api.Put(r.Context(), data.Key, data.Revision)
		return v.done(w, r, err, path, action+"d")
	case "rotate":
		return v.rotateKey(w, r, data)
	case "revoke":
		err = v.api.Delete(r.Context(), configv1.KeyKind(), data.Key.GetName())
		return v.done(w, r, err, "/keys", "revoked")
	}
	return errNoPage
}

func (v *visit) rotateKey(w http.ResponseWriter, r *http.Request, data keyData) error {
	grace, err := strconv.ParseInt(r.PostForm.Get("grace"), 10, 64)
	if err != nil {
		grace = 0
	}
	made, err := v.api.RotateKey(r.Context(), data.Key.GetName(), adminapi.RotateRequest{Grace: grace})
	if err != nil {
		if message, ok := refused(err); ok {
			return v.renderKey(w, r, http.StatusUnprocessableEntity, data, message)
		}
		return err
	}
	data.New, data.Grace = &made, grace
	return v.showNew(w, data)
}

// showNew shows a key, at the only time at which it is.
func (v *visit) showNew(w http.ResponseWriter, data keyData) error {
	data.Pending = v.pending
	base, _ := v.gateway()
	data.Snippets = snippets(base, data.New.Key, modelFor(data.Key.GetModels()))
	return v.render(w, "key-shown", "Your new key", data)
}

// askKey asks before a key is revoked or rotated.
func (v *visit) askKey(w http.ResponseWriter, r *http.Request) error {
	data, err := v.aKey(r)
	if err != nil {
		return err
	}
	switch r.PathValue("what") {
	case "rotate":
		return v.render(w, "key-rotate", "Rotate a key", data)
	case "revoke":
		return v.render(w, "key-revoke", "Revoke a key", data)
	}
	return errNoPage
}

// done leads on where there is no error.
func (v *visit) done(w http.ResponseWriter, r *http.Request, err error, path, what string) error {
	if err != nil {
		return err
	}
	return v.goTo(w, r, path, what)
}

// revisionOf returns the revision that an object must still have, which a form has kept.
func revisionOf(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.PostForm.Get("revision"), 10, 64) // 0: any
	return n
}
