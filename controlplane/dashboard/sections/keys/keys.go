// Package keys is the pages of the clients' keys.
//
// A key is shown once, to the form that made it. No page may read it again.
package keys

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// A section is the pages, and the gateway that their examples name.
type section struct{ gateway page.Gateway }

// Section returns the pages.
func Section(gateway page.Gateway) page.Section {
	s := section{gateway}
	return page.Section{
		Place: 100,
		Lines: []page.Line{
			{Group: page.GroupAccess, Path: "/keys", Name: "Keys", Scope: authz.KeysRead, Tenants: true},
		},
		Routes: []page.Route{
			page.Get("/keys", authz.KeysRead, list),
			page.Post("/keys", authz.KeysWrite, s.create),
			page.Post("/keys/several", authz.KeysWrite, several),
			page.Get("/new/key", authz.KeysWrite, form),
			page.Get("/keys/{name}", authz.KeysRead, show),
			page.Post("/keys/{name}", authz.KeysWrite, s.change),
			page.Get("/keys/{name}/{what}", authz.KeysWrite, ask),
		},
		Templates: templates,
		Functions: template.FuncMap{"scope": scopeText,
			"sum": func(a, b int64) int64 { return a + b }},
		Notices: map[string]string{
			"revoked":       "The key is revoked. It no longer works.",
			"keys_disabled": "The keys are disabled.",
			"keys_enabled":  "The keys are enabled.",
		},
	}
}

// A listData is what the list of keys shows.
type listData struct {
	page.List
	Traffic traffic
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := listData{}
	var err error
	data.List, err = v.List(r, configv1.KeyKind(), "organization", "project", "disabled")
	if err != nil {
		return err
	}
	ids := make([]string, len(data.Items))
	for i, item := range data.Items {
		ids[i] = item.Name
	}
	now := time.Now().UTC()
	if data.Traffic, err = trafficOf(v, r, now.Add(-day), now, ids...); err != nil {
		return err
	}
	return v.Render(w, "keys", "Keys", data)
}

// A keyData is what the pages of one key show.
type keyData struct {
	Key      *configv1.Key
	Revision int64
	Error    string
	// DeclaredBy is what declares it, if that is not the admin API or a file.
	DeclaredBy string
	Consumed   adminapi.Consumption
	// Whether what is used could not be read.
	NoConsumption bool
	Organizations []adminapi.Item
	Projects      []adminapi.Item
	CreateMissing bool             // for a new key: create its organization and project if they do not exist
	New           *adminapi.NewKey // at the only time at which it is shown
	Grace         int64
	Snippets      []snippet
	Activity      *figures.Activity
	Traffic       traffic
	Pending       bool // the new one is not in force everywhere yet
}

// suggest adds what the fields of a form suggest. That there is nothing to suggest is no error.
func suggest(ctx context.Context, v *page.Visit, data *keyData) {
	named := func(kind configv1.Kind) []adminapi.Item {
		found, err := v.API.ListPage(ctx, kind, adminapi.ListOptions{Limit: 200})
		if err != nil {
			return nil
		}
		return found.Items
	}
	data.Organizations = named(configv1.KindOf((*configv1.Organization)(nil)))
	data.Projects = named(configv1.KindOf((*configv1.Project)(nil)))
}

func form(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	data := keyData{Key: &configv1.Key{Organization: q.Get("organization"), Project: q.Get("project")}}
	suggest(r.Context(), v, &data)
	return v.Render(w, "key-new", "New key", data)
}

// readKey puts what a form says into a key.
func readKey(f url.Values, k *configv1.Key) error {
	return forms.Read(f, k, "display_name", "organization", "project", "models", "endpoints", "addresses", "limits",
		"budgets", "expires_at", "metadata")
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

func (s section) create(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := keyData{Key: &configv1.Key{}, CreateMissing: r.PostForm.Has("create_missing")}
	err := readKey(r.PostForm, data.Key)
	if err == nil {
		var made adminapi.NewKey
		made, err = v.API.CreateKey(r.Context(), requestOf(data.Key), adminapi.CreateMissing.If(data.CreateMissing)...)
		if made.Key != "" { // also of one that waits for approval
			data.Key.Name, data.New = made.ID, &made
			return s.showNew(v, w, data)
		}
	}
	if message, ok := page.Refused(err); ok {
		suggest(r.Context(), v, &data)
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "key-new", "New key", data, message)
	}
	return err
}

// aKey reads the key that a path names.
func aKey(v *page.Visit, r *http.Request) (keyData, error) {
	item, err := v.API.Get(r.Context(), configv1.KeyKind(), r.PathValue("name"))
	if err != nil {
		return keyData{}, err
	}
	k, ok := item.Object.(*configv1.Key)
	if !ok {
		return keyData{}, page.ErrNoPage
	}
	return keyData{Key: k, Revision: item.Status.Revision, Error: item.Status.Error,
		DeclaredBy: item.Status.DeclaredBy}, nil
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := aKey(v, r)
	if err != nil {
		return err
	}
	return render(v, w, r, http.StatusOK, data, "")
}

func render(v *page.Visit, w http.ResponseWriter, r *http.Request, status int, data keyData, problem string) error {
	var err error
	if data.Consumed, err = v.API.KeyConsumption(r.Context(), data.Key.GetName()); err != nil {
		data.NoConsumption = true
	}
	if r.Header.Get("HX-Target") != "consumption" { // what is refreshed every 5 s has nothing else
		if err = data.addRest(v, r); err != nil {
			return err
		}
	}
	return v.RenderStatus(w, status, "key", data.Key.GetDisplayName(), data, problem)
}

// addRest adds what the page has besides the use of limits and budgets.
func (d *keyData) addRest(v *page.Visit, r *http.Request) (err error) {
	if d.Activity, err = figures.ActivityOf(v, r, "key", d.Key.GetName(), "model", "Model"); err != nil {
		return err
	}
	span := figures.SpanOf(v, r)
	if d.Traffic, err = trafficOf(v, r, span.From, span.To, d.Key.GetName()); err != nil {
		return err
	}
	if v.Principal.May(authz.KeysWrite) {
		suggest(r.Context(), v, d)
	}
	return nil
}

// change does what a button of the page of a key says.
func (s section) change(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := aKey(v, r)
	if err != nil {
		return err
	}
	path := page.Path("keys", data.Key.GetName())
	switch action := r.PostForm.Get("action"); action {
	case "save":
		data.Key = proto.CloneOf(data.Key)
		return v.Save(w, r, data.Key, false, readKey(r.PostForm, data.Key), path,
			func(status int, problem string) error { return render(v, w, r, status, data, problem) })
	case "disable", "enable":
		data.Key.Disabled = action == "disable"
		_, err = v.API.Put(r.Context(), data.Key, data.Revision)
		return v.Done(w, r, err, path, action+"d")
	case "rotate":
		return s.rotate(v, w, r, data)
	case "revoke":
		err = v.API.Delete(r.Context(), configv1.KeyKind(), data.Key.GetName())
		return v.Done(w, r, err, "/keys", "revoked")
	}
	return page.ErrNoPage
}

func (s section) rotate(v *page.Visit, w http.ResponseWriter, r *http.Request, data keyData) error {
	grace, err := strconv.ParseInt(r.PostForm.Get("grace"), 10, 64)
	if err != nil {
		grace = 0
	}
	made, err := v.API.RotateKey(r.Context(), data.Key.GetName(), adminapi.RotateRequest{Grace: grace})
	if err != nil {
		if message, ok := page.Refused(err); ok {
			return render(v, w, r, http.StatusUnprocessableEntity, data, message)
		}
		return err
	}
	data.New, data.Grace = &made, grace
	return s.showNew(v, w, data)
}

// showNew shows a key, at the only time at which it is.
func (s section) showNew(v *page.Visit, w http.ResponseWriter, data keyData) error {
	data.Pending = v.Pending
	base, _ := s.gateway()
	data.Snippets = snippets(base, data.New.Key, modelFor(data.Key.GetModels()))
	return v.Render(w, "key-shown", "Your new key", data)
}

// ask asks before a key is revoked or rotated.
func ask(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := aKey(v, r)
	if err != nil {
		return err
	}
	switch r.PathValue("what") {
	case "rotate":
		return v.Render(w, "key-rotate", "Rotate a key", data)
	case "revoke":
		return v.Render(w, "key-revoke", "Revoke a key", data)
	}
	return page.ErrNoPage
}

// scopeText says whose a limit is, on the page of a key.
func scopeText(scope string) string {
	if strings.HasPrefix(scope, "key/") {
		return "of this key"
	}
	return "of the " + strings.Replace(scope, "/", " ", 1)
}
