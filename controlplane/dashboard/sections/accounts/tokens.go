package accounts

import (
	"net/http"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

func listTokens(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return v.RenderList(w, r, configv1.KindOf((*configv1.AdminToken)(nil)), "tokens", "Admin tokens")
}

// A tokenData is what the form of a new token shows.
type tokenData struct {
	DisplayName, ExpiresAt string
	IdentityProvider       string
	Scopes                 []scopeChoice
	New                    *adminapi.NewToken // at the only time at which it is shown
}

type scopeChoice struct {
	Name, Does string
	Chosen     bool
}

func scopeChoices(chosen []string) []scopeChoice {
	list := []scopeChoice{
		{Name: string(authz.ConfigRead), Does: "read the configuration"},
		{Name: string(authz.ConfigWrite), Does: "change the configuration"},
		{Name: string(authz.KeysRead), Does: "read keys"},
		{Name: string(authz.KeysWrite), Does: "create, change and revoke keys"},
		{Name: string(authz.UsageRead), Does: "read usage, costs and the request log"},
		{Name: string(authz.JobsRead), Does: "read batches and fine-tuning jobs"},
		{Name: string(authz.JobsWrite), Does: "cancel batches"},
		{Name: string(authz.AuditRead), Does: "read the audit log"},
		{Name: string(authz.StatusRead), Does: "read the state of the data plane"},
		{Name: string(authz.AdminsRead), Does: "read accounts, admin tokens and issuers"},
		{Name: string(authz.AdminsWrite), Does: "manage them"},
		{Name: string(authz.BodiesRead), Does: "see kept requests and answers"},
		{Name: string(authz.BodiesDelete), Does: "delete kept requests and answers"},
		{Name: string(authz.Provision), Does: "provision accounts and groups, for the SCIM client of an identity provider"},
		{Name: string(authz.Everything), Does: "everything except seeing kept requests and answers"},
	}
	for i := range list {
		for _, c := range chosen {
			list[i].Chosen = list[i].Chosen || c == list[i].Name
		}
	}
	return list
}

func newToken(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
	return v.Render(w, "token-new", "New admin token",
		tokenData{Scopes: scopeChoices([]string{string(authz.ConfigRead)})})
}

func createToken(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	data := tokenData{DisplayName: strings.TrimSpace(f.Get("display_name")), ExpiresAt: f.Get("expires_at"),
		IdentityProvider: strings.TrimSpace(f.Get("identity_provider")), Scopes: scopeChoices(f["scope"])}
	expires, err := forms.Time(data.ExpiresAt)
	if err == nil {
		asked := adminapi.TokenRequest{DisplayName: data.DisplayName, Scopes: f["scope"],
			IdentityProvider: data.IdentityProvider}
		if expires != nil {
			at := expires.AsTime()
			asked.ExpiresAt = &at
		}
		var made adminapi.NewToken
		if made, err = v.API.CreateToken(r.Context(), asked); err == nil {
			data.New = &made
			return v.Render(w, "token-new", "Your new token", data)
		}
	}
	if message, ok := page.Refused(err); ok {
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "token-new", "New admin token", data, message)
	}
	return err
}
