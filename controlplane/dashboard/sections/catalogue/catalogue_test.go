package catalogue_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page/pagetest"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/catalogue"
	"github.com/modelgate/modelgate/internal/httpapi"
)

func TestEachModelHasItsPriceAndAWayToUseIt(t *testing.T) {
	at := time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)
	var asked url.Values
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/v1/catalogue", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Catalogue{Known: 9, Vendors: []string{"openai"},
			Capabilities: []string{"responses_only"}, Items: []adminapi.CatalogueModel{
				{Vendor: "openai", Name: "o3-pro", Exact: true, InputUSD: "20", OutputUSD: "80", ContextTokens: 200000,
					Inputs: []string{"text", "image"}, Outputs: []string{"text"}, RetiresAt: &at,
					Capabilities: []string{"responses_only"}, Providers: []string{"mine"}},
				{Vendor: "openai", Name: "gpt-9", Retired: true, Capabilities: []string{}, Providers: []string{}},
			}})
	})
	owner := pagetest.New(catalogue.Section(), mux, &configv1.Account{Name: "ada", Role: configv1.Role_OWNER})
	page := owner.Get("/catalogue?q=o3&vendor=openai&capability=responses_only&served=true")
	require.Equal(t, http.StatusOK, page.Code, page.Body)
	require.Equal(t, "capability=responses_only&q=o3&served=true&vendor=openai", asked.Encode())
	for _, want := range []string{"$20.00", "$80.00", "200k", "text, image → text", "responses only",
		"retires 2027-01-02",
		`href="/providers/mine"`, `href="/new/model?model=o3-pro&amp;name=o3-pro&amp;provider=mine"`,
		`href="/new/provider?model=gpt-9&amp;vendor=openai"`, "2 of 9 models", "And its versions"} {
		require.Contains(t, page.Body.String(), want)
	}
	require.NotContains(t, page.Body.String(), "after=")
	require.Contains(t, owner.Get("/catalogue?after=1").Body.String(), "gpt-9")
	require.NotContains(t, owner.Get("/catalogue?after=1").Body.String(), "o3-pro")
	require.Contains(t, owner.Get("/catalogue?after=-7").Body.String(), "o3-pro")
	require.Equal(t, http.StatusOK, owner.Get("/catalogue?after=99").Code)
	viewer := pagetest.New(catalogue.Section(), mux, &configv1.Account{Name: "eve", Role: configv1.Role_VIEWER})
	require.NotContains(t, viewer.Get("/catalogue").Body.String(), "/new/", "a button that is refused")
}
