package objects

import (
	"embed"
	"net/http"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// examples has an object of each kind that has a form made from the schema.
//
//go:embed examples/*.yaml
var examples embed.FS

// exampleOf returns the example of a kind, if there is one: then the kind has a form.
func exampleOf(kind configv1.Kind) (configv1.Object, bool) {
	name := "examples/" + kind.Name + ".yaml"
	text, err := examples.ReadFile(name)
	if err != nil {
		return nil, false
	}
	docs, err := configv1.ParseYAML(name, text)
	if err != nil || len(docs) != 1 {
		panic("objects: an example cannot be read: " + name) // a test reads them
	}
	return docs[0].Object, true
}

func hasForm(kind configv1.Kind) bool {
	_, ok := exampleOf(kind)
	return ok
}

// A formData is what the form of one object shows.
type formData struct {
	Kind      configv1.Kind
	Name      string // empty: a new object
	Typed     string // the name that somebody has typed
	Home      string
	Status    adminapi.Status
	Fields    []forms.Field
	Faults    forms.Faults
	Writeable bool
}

func (d formData) title() string {
	if d.Name == "" {
		return "New " + d.Kind.Name
	}
	return d.Kind.Name + " " + d.Name
}

// fieldForm shows an object, or a new one, as a form. With example in the address, a new one is filled in.
func fieldForm(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, object, err := formOf(v, r)
	if err != nil {
		return err
	}
	if data.Name == "" && r.URL.Query().Get("example") != "" {
		object, _ = exampleOf(data.Kind)
		data.Typed = object.GetName()
	}
	data.Fields = forms.Fields(object)
	return v.Render(w, "form", data.title(), data)
}

// formOf returns the form of the object that a path names, and the object.
func formOf(v *page.Visit, r *http.Request) (data formData, object configv1.Object, err error) {
	if data.Kind, err = kindOf(r); err != nil {
		return data, nil, err
	}
	if _, ok := exampleOf(data.Kind); !ok {
		return data, nil, page.ErrNoPage
	}
	data.Name, data.Home, data.Writeable = r.PathValue("name"), page.HomeOf(data.Kind), mayWrite(v, data.Kind)
	if data.Name == "" {
		return data, data.Kind.New(), nil
	}
	item, err := v.API.Get(r.Context(), data.Kind, data.Name)
	if err == nil && item.Object == nil {
		err = page.ErrNoPage
	}
	data.Status = item.Status
	return data, item.Object, err
}

// saveForm stores what is in the form. What is wrong is shown beside its field.
func saveForm(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, object, err := formOf(v, r)
	if err != nil {
		return err
	}
	isNew := data.Name == ""
	if isNew {
		data.Typed = strings.TrimSpace(r.PostForm.Get("name"))
		forms.SetName(object, data.Typed)
	}
	err, done := forms.Fill(r.PostForm, object), "saved"
	switch {
	case err != nil:
	case isNew:
		err, done = v.Create(r, object), "created"
	default:
		_, err = v.API.Put(r.Context(), object, page.Revision(r))
	}
	if message, ok := page.Refused(err); ok {
		data.Faults, data.Fields = forms.FaultsOf(err), forms.Fields(object)
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "form", data.title(), data, message)
	}
	v.Changed(object)
	return v.Done(w, r, err, page.Path("form/"+data.Kind.Name, object.GetName()), done)
}
