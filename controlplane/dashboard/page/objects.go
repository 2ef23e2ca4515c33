package page

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// Stored reads an object of a type, for a page to show or change. The copy is the caller's.
func Stored[T configv1.Object](v *Visit, r *http.Request) (object T, status adminapi.Status, err error) {
	item, err := v.API.Get(r.Context(), configv1.KindOf(object), r.PathValue("name"))
	if err != nil {
		return object, status, err
	}
	o, ok := item.Object.(T)
	if !ok {
		return object, status, &openai.Error{Status: http.StatusNotFound,
			Message: "The stored object with this name cannot be read: " + item.Status.Error}
	}
	return proto.CloneOf(o), item.Status, nil
}

// Create stores an object that must not be there yet.
func (v *Visit) Create(r *http.Request, o configv1.Object) error {
	kind := configv1.KindOf(o)
	if strings.Trim(o.GetName(), "/") != o.GetName() || o.GetName() == "" {
		return openai.CodeMissing.On("name", "Give it a name.")
	}
	if _, err := v.API.Get(r.Context(), kind, o.GetName()); err == nil {
		return openai.CodeConflict.On("name", "A %s named %s already exists.", kind.Name,
			o.GetName()).WithStatus(http.StatusBadRequest)
	}
	_, err := v.API.Put(r.Context(), o, 0)
	return err
}

// Revision returns the revision that an object must still have, which a form has kept.
func Revision(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.PostForm.Get("revision"), 10, 64) // 0: any
	return n
}

// HomeOf returns the page that lists the objects of a kind.
func HomeOf(kind configv1.Kind) string {
	return cmp.Or(kind.Options.GetPage(), ObjectPath("objects", kind.Name, ""))
}

// PageOf returns the page of an object: below the list of its kind if a section has such pages.
func (v *Visit) PageOf(kind configv1.Kind, name string) string {
	home := HomeOf(kind)
	for _, r := range v.site.Routes() {
		if strings.HasPrefix(r.Pattern, "GET "+home+"/{name") {
			return Path(strings.TrimPrefix(home, "/"), name)
		}
	}
	return ObjectPath("objects", kind.Name, name)
}

// A Ref is the name of an object. Without a path nothing leads to it.
type Ref struct {
	Path, Name, Label string
	Deleted           bool
}

// ref looks whether an object is still there. Objects that the visitor may not see have no path.
func (v *Visit) ref(kind, name, label string) Ref {
	if of, ok := v.refs[[2]string{kind, name}]; ok {
		return of
	}
	k, _ := configv1.FindKind(kind)
	of := Ref{Name: name}
	item, err := v.API.Get(v.request.Context(), k, name)
	of.Label = cmp.Or(label, item.Title(), name)
	e, refused := errors.AsType[*openai.Error](err)
	switch {
	case refused && e.Status == http.StatusNotFound:
		of.Deleted = v.Principal.Tenant.IsAll() // others do not learn whether it is there
	case !refused || e.Status != http.StatusForbidden:
		of.Path = v.PageOf(k, name)
	}
	v.refs[[2]string{kind, name}] = of
	return of
}

// named writes the names of keys and tokens in place of their ids in a text.
func (v *Visit) named(text string) string {
	if v.names == nil {
		v.names = adminapi.Names(v.request.Context(), v.API)
	}
	return v.names(text)
}

// Path returns the path of a named thing. The name may hold slashes.
func Path(base, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/" + base + "/" + strings.Join(parts, "/")
}

// ObjectPath returns the path of an object, below objects or delete; without a name the path of its kind.
func ObjectPath(base, kind, name string) string {
	if name == "" {
		return "/" + base + "/" + kind
	}
	return Path(base+"/"+kind, name)
}

// HistoryPath returns the page with the history of an object, or "" if none is kept.
func HistoryPath(kind, name string) string {
	k, ok := configv1.FindKind(kind)
	if !ok || name == "" || k.Plural == "accounts" || k.Plural == "admintokens" {
		return ""
	}
	return ObjectPath("history", k.Name, name)
}
