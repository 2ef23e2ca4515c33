package keys

import (
	"net/http"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// maxSeveral is how many keys a form may change.
const maxSeveral = 200

// several disables or enables the keys that were chosen in the list: all or none. The audit log has an entry for each
// key, which its history and its rollback need.
func several(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	action, chosen := r.PostForm.Get("action"), r.PostForm["name"]
	if action != "disable" && action != "enable" {
		return page.ErrNoPage
	}
	if len(chosen) > maxSeveral {
		return openai.CodeInvalidValue.On("name", "Choose at most %d keys.", maxSeveral)
	}
	var changed []configv1.Object
	for _, name := range chosen {
		item, err := v.API.Get(r.Context(), configv1.KeyKind(), name)
		if err != nil {
			return err
		}
		k, ok := item.Object.(*configv1.Key)
		if !ok || k.GetDisabled() == (action == "disable") {
			continue
		}
		k = proto.CloneOf(k)
		k.Disabled = action == "disable"
		changed = append(changed, k)
	}
	if len(changed) == 0 {
		return v.GoTo(w, r, "/keys", "")
	}
	_, err := v.API.Apply(r.Context(), changed, false)
	return v.Done(w, r, err, "/keys", "keys_"+action+"d")
}
