// Package objects is the pages of objects of any kind: the editor, deletion, the history and the way back.
//
// What a person may do with a kind, the API says: the routes ask for no scope.
package objects

import (
	"embed"
	"net/http"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 160,
		Lines: []page.Line{
			{Group: page.GroupSettings, Path: "/objects", Name: "All objects", Scope: authz.ConfigRead},
		},
		Routes: []page.Route{
			page.Get("/objects", authz.ConfigRead, kinds),
			page.Get("/objects/{kind}", "", list),
			page.Get("/objects/{kind}/{name...}", "", edit),
			page.Post("/objects/{kind}", "", write),
			page.Post("/objects/{kind}/{name...}", "", write),
			page.Get("/new/object/{kind}", "", form),
			page.Get("/form/{kind}", "", fieldForm),
			page.Get("/form/{kind}/{name...}", "", fieldForm),
			page.Post("/form/{kind}", "", saveForm),
			page.Post("/form/{kind}/{name...}", "", saveForm),
			page.Get("/delete/{kind}/{name...}", "", askDelete),
			page.Post("/delete/{kind}/{name...}", "", remove),
			page.Get("/history/{kind}/{name...}", authz.AuditRead, history),
			page.Get("/rollback/{kind}/{name...}", "", askRollback),
			page.Post("/rollback/{kind}/{name...}", "", rollback),
		},
		Templates: templates,
		Notices:   map[string]string{"rolled_back": "Rolled back. The data plane uses the change."},
	}
}

// kindOf returns the kind that a path is about.
func kindOf(r *http.Request) (configv1.Kind, error) {
	kind, ok := configv1.FindKind(r.PathValue("kind"))
	if !ok {
		return kind, page.ErrNoPage
	}
	return kind, nil
}

func kinds(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
	type line struct{ Name, Does string }
	var lines []line
	for _, k := range configv1.Kinds() {
		if !v.Principal.May(authz.ReadScope(k)) {
			continue
		}
		lines = append(lines, line{k.Name, k.Options.GetSummary()})
	}
	return v.Render(w, "kinds", "All objects", lines)
}

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	data, err := v.List(r, kind)
	if err != nil {
		return err
	}
	return v.Render(w, "objects", kind.Name, struct {
		page.List
		Kind      configv1.Kind
		Writeable bool
		HasForm   bool
	}{data, kind, mayWrite(v, kind), hasForm(kind)})
}

// mayWrite reports whether somebody may write objects of a kind by hand.
func mayWrite(v *page.Visit, kind configv1.Kind) bool { return v.Principal.May(authz.WriteScope(kind)) }

// An editorData is what the editor of one object shows.
type editorData struct {
	Kind     configv1.Kind
	Name     string // empty: a new object
	Text     string
	Home     string
	Revision int64
	Error    string
	// DeclaredBy is what declares it, if that is not the admin API or a file.
	DeclaredBy string
	Writeable  bool
	Checked    bool // whether Changes are what would come of the text
	Changes    []adminapi.Change
	Refused    string // why nothing would
	HasForm    bool   // whether the kind has a form besides the text
}

func edit(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	item, err := v.API.Get(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		return err
	}
	data := editorData{Kind: kind, Name: item.Name, Home: page.HomeOf(kind), Revision: item.Status.Revision,
		Error: item.Status.Error, DeclaredBy: item.Status.DeclaredBy, Writeable: mayWrite(v, kind),
		HasForm: item.Object != nil && hasForm(kind)}
	if item.Object != nil {
		text, err := configv1.MarshalYAML(item.Object)
		if err != nil {
			return err
		}
		data.Text = string(text)
	}
	return v.Render(w, "object", kind.Name+" "+item.Name, data)
}

func form(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	data := editorData{Kind: kind, Home: page.HomeOf(kind), Writeable: mayWrite(v, kind),
		HasForm: hasForm(kind), Text: "kind: " + kind.Name + "\nname: \n"}
	return v.Render(w, "object", "New "+kind.Name, data)
}

// write checks or saves what is in the editor.
func write(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	data := editorData{
		Kind: kind, Name: name, Home: page.HomeOf(kind), Writeable: mayWrite(v, kind), Text: r.PostForm.Get("text"),
		Revision: page.Revision(r), Checked: true,
	}
	title := kind.Name + " " + name
	object, err := oneObject(data.Text, kind, name)
	if err == nil && r.PostForm.Get("action") == "save" {
		if name == "" {
			err = v.Create(r, object)
		} else {
			_, err = v.API.Put(r.Context(), object, data.Revision)
		}
		if err == nil {
			v.Changed(object)
			return v.GoTo(w, r, page.Path("objects/"+kind.Name, object.GetName()), "saved")
		}
	} else if err == nil {
		var answer adminapi.ApplyAnswer
		answer, err = v.API.Apply(r.Context(), []configv1.Object{object}, true)
		data.Changes = answer.Changes
	}
	if err == nil {
		return v.Render(w, "object", title, data)
	}
	message, ok := page.Refused(err)
	if !ok {
		return err
	}
	data.Refused = message
	return v.RenderStatus(w, http.StatusUnprocessableEntity, "object", title, data, "")
}

// oneObject reads the one object that a text must hold. The name is empty if it is not given by the page.
func oneObject(text string, kind configv1.Kind, name string) (configv1.Object, error) {
	docs, err := configv1.ParseYAML("line", []byte(text))
	if err != nil {
		return nil, openai.CodeInvalidObject.New("%s", err.Error())
	}
	if len(docs) != 1 {
		return nil, openai.CodeInvalidObject.New("The text must contain one object, not %d.", len(docs))
	}
	o := docs[0].Object
	if docs[0].Kind.Name != kind.Name || name != "" && o.GetName() != name {
		return nil, openai.CodeInvalidObject.New(
			"The object must remain %s. To rename it, create another object and delete this one.", strings.TrimSpace(kind.Name+" "+name))
	}
	return o, nil
}

func askDelete(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	item, err := v.API.Get(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		return err
	}
	return v.Render(w, "delete", "Delete "+item.Name, deleteData{kind, item.Name, page.HomeOf(kind)})
}

type deleteData struct {
	Kind       configv1.Kind
	Name, Home string
}

func remove(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	err = v.API.Delete(r.Context(), kind, r.PathValue("name"))
	if message, ok := page.Refused(err); ok {
		data := deleteData{kind, r.PathValue("name"), page.HomeOf(kind)}
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "delete", "Delete "+data.Name, data, message)
	}
	return v.Done(w, r, err, page.HomeOf(kind), "deleted")
}
