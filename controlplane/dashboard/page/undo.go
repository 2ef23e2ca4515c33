package page

import (
	"net/url"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// An Undo leads to the way back of the last change of an object.
type Undo struct{ By, Path string }

// Changed has the page that [Visit.GoTo] leads to offer to undo the change of an object.
func (v *Visit) Changed(o configv1.Object) { v.changed = configv1.KindOf(o).Name + "/" + o.GetName() }

// undo returns the way back of the change that the address names, if the person may see and take it.
func (v *Visit) undo() *Undo {
	kindName, name, ok := strings.Cut(v.request.URL.Query().Get("undo"), "/")
	kind, known := configv1.FindKind(kindName)
	if !ok || !known || v.API == nil || !v.Principal.May(authz.AuditRead) || !v.Principal.Tenant.IsAll() ||
		!v.Principal.May(authz.WriteScope(kind)) || HistoryPath(kind.Name, name) == "" {
		return nil
	}
	versions, err := v.API.HistoryPage(v.request.Context(), kind, name, "")
	if err != nil || len(versions.Items) == 0 { // the change is made, whatever is known of it
		return nil
	}
	last := versions.Items[0]
	switch {
	case last.Created:
		return &Undo{v.named(last.Actor), ObjectPath("delete", kind.Name, name)}
	case len(versions.Items) > 1 && v.undoes(kind, name, versions.Items[1].Revision):
		before := url.Values{"revision": {strconv.FormatInt(versions.Items[1].Revision, 10)}}
		return &Undo{v.named(last.Actor), ObjectPath("rollback", kind.Name, name) + "?" + before.Encode()}
	}
	return nil
}

// undoes reports whether a rollback would change anything: it brings back no credential.
func (v *Visit) undoes(kind configv1.Kind, name string, revision int64) bool {
	plan, err := v.API.Rollback(v.request.Context(), kind, name, revision, true)
	return err == nil && adminapi.Changing(plan.Changes)
}
