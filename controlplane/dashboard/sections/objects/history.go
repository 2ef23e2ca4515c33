package objects

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A historyData is what the history of one object shows.
type historyData struct {
	page.Part[adminapi.Version]
	Kind      configv1.Kind
	Name      string
	Home      string
	Writeable bool
}

func history(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	data := historyData{Kind: kind, Name: r.PathValue("name"), Home: page.HomeOf(kind), Writeable: mayWrite(v, kind)}
	data.Part, err = page.PartOf(r, func(o adminapi.ListOptions) (adminapi.Page[adminapi.Version], error) {
		return v.API.HistoryPage(r.Context(), kind, data.Name, o.After)
	})
	if err != nil {
		return err
	}
	return v.Render(w, "history", "History of "+data.Name, data)
}

// A rollbackData is the question before a rollback.
type rollbackData struct {
	Kind     configv1.Kind
	Name     string
	Revision int64
	Changes  []adminapi.Change // what the rollback would do
	Changing bool              // whether that is anything
	Plan     string            // names Changes
}

// planRollback returns what a rollback would do now.
func planRollback(v *page.Visit, r *http.Request, given string) (data rollbackData, err error) {
	data.Name = r.PathValue("name")
	if data.Kind, err = kindOf(r); err != nil {
		return data, err
	}
	if data.Revision, err = strconv.ParseInt(given, 10, 64); err != nil {
		return data, openai.CodeInvalidValue.On("revision", "Choose a version from the history.")
	}
	answer, err := v.API.Rollback(r.Context(), data.Kind, data.Name, data.Revision, true)
	if err != nil {
		return data, err
	}
	data.Changes = answer.Changes
	data.Changing = adminapi.Changing(data.Changes)
	text, err := json.Marshal(data.Changes)
	sum := sha256.Sum256(text)
	data.Plan = hex.EncodeToString(sum[:])
	return data, err
}

func (d rollbackData) title() string { return "Roll back " + d.Name }

func askRollback(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := planRollback(v, r, r.URL.Query().Get("revision"))
	if message, ok := page.Refused(err); ok {
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "rollback", data.title(), data, message)
	}
	if err != nil {
		return err
	}
	return v.Render(w, "rollback", data.title(), data)
}

// rollback carries out the changes that were shown. If they would be different by now, it shows the new ones.
func rollback(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := planRollback(v, r, r.PostForm.Get("revision"))
	if err == nil && data.Plan != r.PostForm.Get("plan") {
		return v.RenderStatus(w, http.StatusConflict, "rollback", data.title(), data,
			"The object was changed after you opened this page. The rollback would now do this:")
	}
	if err == nil {
		var answer adminapi.ApplyAnswer
		if answer, err = v.API.Rollback(r.Context(), data.Kind, data.Name, data.Revision, false); err == nil {
			err = answer.Waits()
		}
	}
	if message, ok := page.Refused(err); ok {
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "rollback", data.title(), data, message)
	}
	return v.Done(w, r, err, page.HistoryPath(data.Kind.Name, data.Name), "rolled_back")
}
