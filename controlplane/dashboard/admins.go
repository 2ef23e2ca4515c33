package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/admin"
)

func kindNamed(plural string) configv1.Kind {
	kind, _ := configv1.FindKind(plural)
	return kind
}

func (v *visit) accounts(w http.ResponseWriter, r *http.Request) error {
	data, err := v.list(r, kindNamed("accounts"))
	if err != nil {
		return err
	}
	return v.render(w, "accounts", "Accounts", data)
}

// An accountData is what the pages of one account show.
type accountData struct {
	Person *configv1.Account
	New    bool
	Status adminapi.Status
}

func (v *visit) newAccount(w http.ResponseWriter, _ *http.Request) error {
	person := &configv1.Account{Role: configv1.Role_VIEWER}
	if t := v.principal.Tenant; !t.IsAll() {
		person = &configv1.Account{Memberships: []*configv1.Membership{{Organization: t.Organization, Project: t.Project,
			Role: configv1.Role_MEMBER}}}
	}
	return v.render(w, "account", "New account", accountData{Person: person, New: true})
}

// readAccount puts what a form says into an account. Without a password the one that is stored stays.
func readAccount(f url.Values, a *configv1.Account) (err error) {
	a.DisplayName, a.Disabled = strings.TrimSpace(f.Get("display_name")), f.Get("disabled") != ""
	a.ReadBodies, a.BreakGlass = f.Get("read_bodies") != "", f.Get("break_glass") != ""
	if a.GetProvisioning() == nil { // else the groups of the person decide
		a.Role = configv1.Role(configv1.Role_value[f.Get("role")])
	}
	if p := f.Get("password"); p != "" {
		a.Password, a.PasswordHash = p, ""
	}
	a.Memberships, err = membershipsOf(f.Get("memberships"))
	return err
}

func (v *visit) createAccount(w http.ResponseWriter, r *http.Request) error {
	data := accountData{Person: &configv1.Account{Name: strings.TrimSpace(r.PostForm.Get("name"))}, New: true}
	err := readAccount(r.PostForm, data.Person)
	if err == nil {
		err = v.create(r, data.Person)
	}
	if message, ok := refused(err); ok {
		return v.renderStatus(w, http.StatusUnprocessableEntity, "account", "New account", data, message)
	}
	return v.done(w, r, err, "/accounts", "created")
}

func (v *visit) showAccount(w http.ResponseWriter, r *http.Request) error {
	person, status, err := stored[*configv1.Account](v, r)
	if err != nil {
		return err
	}
	return v.render(w, "account", "Account "+person.GetName(), accountData{Person: person, Status: status})
}

func (v *visit) changeAccount(w http.ResponseWriter, r *http.Request) error {
	person, status, err := stored[*configv1.Account](v, r)
	if err != nil {
		return err
	}
	if err = readAccount(r.PostForm, person); err == nil {
		_, err = v.api.Put(r.Context(), person, revisionOf(r))
	}
	if message, ok := refused(err); ok {
		return v.renderStatus(w, http.StatusUnprocessableEntity, "account", "Account "+person.GetName(),
			accountData{Person: person, Status: status}, message)
	}
	return v.done(w, r, err, "/accounts", "saved")
}

func (v *visit) tokens(w http.ResponseWriter, r *http.Request) error {
	data, err := v.list(r, kindNamed("admintokens"))
	if err != nil {
		return err
	}
	return v.render(w, "tokens", "Admin tokens", data)
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
		{Name: string(admin.ConfigRead), Does: "read the configuration"},
		{Name: string(admin.ConfigWrite), Does: "change the configuration"},
		{Name: string(admin.KeysRead), Does: "read keys"},
		{Name: string(admin.KeysWrite), Does: "create, change and revoke keys"},
		{Name: string(admin.UsageRead), Does: "read usage, costs and the request log"},
		{Name: string(admin.JobsRead), Does: "read batches and fine-tuning jobs"},
		{Name: string(admin.JobsWrite), Does: "cancel batches"},
		{Name: string(admin.AuditRead), Does: "read the audit log"},
		{Name: string(admin.StatusRead), Does: "read the state of the data plane"},
		{Name: string(admin.AdminsRead), Does: "read accounts, admin tokens and issuers"},
		{Name: string(admin.AdminsWrite), Does: "manage them"},
		{Name: string(admin.BodiesRead), Does: "see kept requests and answers"},
		{Name: string(admin.BodiesDelete), Does: "delete kept requests and answers"},
		{Name: string(admin.Provision), Does: "provision accounts and groups, for the SCIM client of an identity provider"},
		{Name: string(admin.Everything), Does: "everything except seeing kept requests and answers"},
	}
	for i := range list {
		for _, c := range chosen {
			list[i].Chosen = list[i].Chosen || c == list[i].Name
		}
	}
	return list
}

func (v *visit) newToken(w http.ResponseWriter, _ *http.Request) error {
	return v.render(w, "token-new", "New admin token",
		tokenData{Scopes: scopeChoices([]string{string(admin.ConfigRead)})})
}

func (v *visit) createToken(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	data := tokenData{DisplayName: strings.TrimSpace(f.Get("display_name")), ExpiresAt: f.Get("expires_at"),
		IdentityProvider: strings.TrimSpace(f.Get("identity_provider")), Scopes: scopeChoices(f["scope"])}
	expires, err := timeOf(data.ExpiresAt)
	if err == nil {
		asked := adminapi.TokenRequest{DisplayName: data.DisplayName, Scopes: f["scope"],
			IdentityProvider: data.IdentityProvider}
		if expires != nil {
			at := expires.AsTime()
			asked.ExpiresAt = &at
		}
		var made adminapi.NewToken
		if made, err = v.api.CreateToken(r.Context(), asked); err == nil {
			data.New = &made
			return v.render(w, "token-new", "Your new token", data)
		}
	}
	if message, ok := refused(err); ok {
		return v.renderStatus(w, http.StatusUnprocessableEntity, "token-new", "New admin token", data, message)
	}
	return err
}
