package find_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page/pagetest"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/find"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// store plays an admin API with many models, of which some were asked for, and with an account.
func store(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/admin/v1/models":
		items := []adminapi.Item{{Name: "team/fast", Object: &configv1.Model{Name: "team/fast"}}}
		for i := range 30 {
			name := fmt.Sprintf("team/m%02d", i)
			items = append(items, adminapi.Item{Name: name, Object: &configv1.Model{Name: name}})
		}
		_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Item]{Items: items})
	case "/admin/v1/keys":
		_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Page[adminapi.Item]{Items: []adminapi.Item{{Name: "key_1",
			Object: &configv1.Key{Name: "key_1", DisplayName: "ci"}}}})
	case "/admin/v1/series":
		_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Series{Groups: []adminapi.SeriesGroup{{Name: "team/fast"},
			{Name: "echo/echo"}}})
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func TestAFieldIsOfferedTheNamesThatThePersonMaySee(t *testing.T) {
	ask := func(role configv1.Role, query string) (found []map[string]string, status int) {
		p := pagetest.New(find.Section(), http.HandlerFunc(store), &configv1.Account{Name: "ada", Role: role}).
			Get("/find/names?" + query)
		if p.Code == http.StatusOK {
			require.NoError(t, json.Unmarshal(p.Body.Bytes(), &found))
		}
		return found, p.Code
	}
	keys, _ := ask(configv1.Role_VIEWER, "kind=Key&q=c")
	require.Equal(t, []map[string]string{{"value": "key_1", "label": "ci"}}, keys)
	models, _ := ask(configv1.Role_VIEWER, "kind=Model")
	require.Len(t, models, 20, "no more than one looks through")
	require.Equal(t, "echo/echo", models[0]["value"], "a model without an object that was asked for")
	require.Equal(t, "team/fast", models[1]["value"])
	require.Equal(t, "team/m00", models[2]["value"], "each once")
	people, status := ask(configv1.Role_VIEWER, "kind=Account")
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, people, "a viewer may not see accounts")
	_, status = ask(configv1.Role_VIEWER, "kind=Nothing")
	require.Equal(t, http.StatusNotFound, status)
}
