package dashboard

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// kindOf returns the kind that a path is about.
func kindOf(r *http.Request) (configv1.Kind, error) {
	kind, ok := configv1.FindKind(r.PathValue("kind"))
	if !ok {
		return kind, errNoPage
	}
	return kind, nil
}

// homeOf returns the page that lists the objects of a kind.
func homeOf(kind configv1.Kind) string {
	switch kind.Plural {
	case "keys", "organizations", "projects", "providers", "models", "policies", "accounts":
		return "/" + kind.Plural
	case "ratelimits":
		return "/rate-limits"
	case "admintokens":
		return "/tokens"
	}
	return "/objects/" + kind.Name
}

func (v *visit) kinds(w http.ResponseWriter, _ *http.Request) error {
	type line struct{ Name, Does string }
	var lines []line
	for _, k := range configv1.Kinds() {
		if !v.principal.May(admin.ReadScope(k)) {
			continue
		}
		lines = append(lines, line{k.Name, kindText(k.Plural)})
	}
	return v.render(w, "kinds", "All objects", lines)
}

func kindText(plural string) string {
	return map[string]string{
		"providers":          "Accounts with model vendors, and their endpoints",
		"models":             "Public names and the targets that serve them",
		"keys":               "API keys of clients",
		"gateways":           "The HTTPS listeners",
		"certificates":       "TLS certificates of listeners",
		"routes":             "Paths that are forwarded unchanged",
		"catalogs":           "Capabilities and prices of models",
		"jobservices":        "Address of the service for files, batches and fine-tuning",
		"webhooks":           "Receivers of notifications about finished jobs",
		"tokenissuers":       "Issuers whose tokens act as keys",
		"certificateissuers": "Issuers whose certificates act as keys",
		"checkers":           "Services that judge the texts of requests",
		"policies":           "Expressions that refuse requests or choose their models",
		"responsecaches":     "Answers that are kept for equal requests",
		"guardrails":         "What is masked or refused in requests and answers",
		"listings":           "Models that providers report",
		"identityproviders":  "Sign-in with accounts elsewhere, by OpenID Connect",
		"retentions":         "How long the ledger keeps what",
		"identitygroups":     "Groups of people that identity providers provision",
		"organizations":      "Groups of keys that share limits and budgets",
		"projects":           "Parts of organizations",
		"ratelimits":         "Limits for combinations of key, user, model and more",
		"accounts":           "People who sign in here",
		"admintokens":        "Programs that use the admin API",
	}[plural]
}

func (v *visit) objects(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	data, err := v.list(r, kind)
	if err != nil {
		return err
	}
	return v.render(w, "objects", kind.Name, struct {
		listData
		Kind      configv1.Kind
		Writeable bool
	}{data, kind, mayWrite(v, kind)})
}

// mayWrite reports whether somebody may write objects of a kind by hand.
func mayWrite(v *visit, kind configv1.Kind) bool { return v.principal.May(admin.WriteScope(kind)) }

// An editorData is what the editor of one object shows.
type editorData struct {
	Kind      configv1.Kind
	Name      string // empty: a new object
	Text      string
	Home      string
	Revision  int64
	Error     string
	Writeable bool
	Checked   bool // whether Changes are what would come of the text
	Changes   []adminapi.Change
	Refused   string // why nothing would
}

func (v *visit) editObject(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	item, err := v.api.Get(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		return err
	}
	data := editorData{Kind: kind, Name: item.Name, Home: homeOf(kind), Revision: item.Status.Revision,
		Error: item.Status.Error, Writeable: mayWrite(v, kind)}
	if item.Object != nil {
		text, err := configv1.MarshalYAML(item.Object)
		if err != nil {
			return err
		}
		data.Text = string(text)
	}
	return v.render(w, "object", kind.Name+" "+item.Name, data)
}

func (v *visit) newObject(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	data := editorData{Kind: kind, Home: homeOf(kind), Writeable: mayWrite(v, kind), Text: "kind: " + kind.Name +
		"\nname: \n"}
	return v.render(w, "object", "New "+kind.Name, data)
}

// writeObject checks or saves what is in the editor.
func (v *visit) writeObject(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	data := editorData{
		Kind: kind, Name: name, Home: homeOf(kind), Writeable: mayWrite(v, kind), Text: r.PostForm.Get("text"),
		Revision: revisionOf(r), Checked: true,
	}
	title := kind.Name + " " + name
	object, err := oneObject(data.Text, kind, name)
	if err == nil && r.PostForm.Get("action") == "save" {
		if name == "" {
			err = v.create(r, object)
		} else {
			_, err = v.api.Put(r.Context(), object, data.Revision)
		}
		if err == nil {
			return v.goTo(w, r, pathTo("objects/"+kind.Name, object.GetName()), "saved")
		}
	} else if err == nil {
		var answer adminapi.ApplyAnswer
		answer, err = v.api.Apply(r.Context(), []configv1.Object{object}, true)
		data.Changes = answer.Changes
	}
	if err == nil {
		return v.render(w, "object", title, data)
	}
	message, ok := refused(err)
	if !ok {
		return err
	}
	data.Refused = message
	return v.renderStatus(w, http.StatusUnprocessableEntity, "object", title, data, "")
}

// oneObject reads the one object that a text must hold. The name is empty where it is not given by the page.
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

func (v *visit) askDelete(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	item, err := v.api.Get(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		return err
	}
	return v.render(w, "delete", "Delete "+item.Name, deleteData{kind, item.Name, homeOf(kind)})
}

type deleteData struct {
	Kind       configv1.Kind
	Name, Home string
}

func (v *visit) deleteObject(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	err = v.api.Delete(r.Context(), kind, r.PathValue("name"))
	if message, ok := refused(err); ok {
		data := deleteData{kind, r.PathValue("name"), homeOf(kind)}
		return v.renderStatus(w, http.StatusUnprocessableEntity, "delete", "Delete "+data.Name, data, message)
	}
	return v.done(w, r, err, homeOf(kind), "deleted")
}

// create stores an object that must not be there yet.
func (v *visit) create(r *http.Request, o configv1.Object) error {
	kind := configv1.KindOf(o)
	if strings.Trim(o.GetName(), "/") != o.GetName() || o.GetName() == "" {
		return openai.CodeMissing.On("name", "Give it a name.")
	}
	if _, err := v.api.Get(r.Context(), kind, o.GetName()); err == nil {
		return openai.CodeConflict.On("name", "A %s named %s already exists.", kind.Name,
			o.GetName()).WithStatus(http.StatusBadRequest)
	}
	_, err := v.api.Put(r.Context(), o, 0)
	return err
}

// stored reads an object of a type, for a page to show or change. The copy is the caller's.
func stored[T configv1.Object](v *visit, r *http.Request) (object T, status adminapi.Status, err error) {
	item, err := v.api.Get(r.Context(), configv1.KindOf(object), r.PathValue("name"))
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
