package dashboard

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/controlplane/identity"
)

const (
	// withPath begins the paths of sign-in with a provider.
	withPath = "/sign-in/with/"
	// flowCookie has the flow of whoever is at a provider.
	flowCookie = "__Host-modelgate-flow"
	flowLife   = 10 * time.Minute
)

// back returns the callback address of a provider. Each provider has its own, so that one cannot pass off another's
// answer as its own.
func (d *Dashboard) back(provider string) string {
	return d.config.BaseURL + withPath + provider + "/back"
}

// signInWith leads to the page of an identity provider.
func (v *visit) signInWith(w http.ResponseWriter, r *http.Request) error {
	if wait := v.addresses.take(network(v.Principal.Address)); wait > 0 {
		return errTooMany(wait)
	}
	name := r.PathValue("provider")
	flow, address, err := v.config.Identity.Begin(r.Context(), name, v.back(name), ownPath(r.URL.Query().Get("next")))
	if err != nil {
		return v.identityError(err)
	}
	value, err := json.Marshal(flow)
	if err != nil {
		return err
	}
	v.addresses.giveBack(network(v.Principal.Address))
	setCookie(w, flowCookie, base64.RawURLEncoding.EncodeToString(value), flowLife)
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}

// flowOf returns the flow that the browser began, which may be empty.
func flowOf(r *http.Request) identity.Flow {
	var flow identity.Flow
	if c, err := r.Cookie(flowCookie); err == nil {
		if value, err := base64.RawURLEncoding.DecodeString(c.Value); err == nil {
			_ = json.Unmarshal(value, &flow) // what is no flow has no state
		}
	}
	return flow
}

// backFrom ends a sign-in with an identity provider.
func (v *visit) backFrom(w http.ResponseWriter, r *http.Request) error {
	if wait := v.addresses.take(network(v.Principal.Address)); wait > 0 {
		return errTooMany(wait)
	}
	flow := flowOf(r)
	setCookie(w, flowCookie, "", -time.Second)
	if flow.Provider != r.PathValue("provider") {
		flow = identity.Flow{}
	}
	person, err := v.config.Identity.End(r.Context(), flow, r.URL.Query(), v.back(r.PathValue("provider")))
	if err != nil {
		return v.identityError(err)
	}
	account, err := v.accountOf(r.Context(), person)
	if err != nil {
		v.audit(r.Context(), authz.Principal{Name: person.Name, Address: v.Principal.Address}, "sign_in_failed", person.Name)
		return err
	}
	v.addresses.giveBack(network(v.Principal.Address))
	began := session{Provider: person.Provider.GetName(), IDToken: person.IDToken,
		Ends: v.config.Now().Add(person.Provider.SignedInFor())}
	return v.enter(w, r, account, began, ownPath(flow.Next))
}

// identityError logs why an identity provider could not be used, and returns what the person may see.
func (v *visit) identityError(err error) error {
	if f, ok := errors.AsType[*identity.Failure](err); ok {
		v.config.Log.Warn("dashboard: an identity provider cannot be used", zap.String("provider", f.Provider),
			zap.Error(f.Cause))
	}
	return err
}

// accountOf makes or changes the account of a person who was signed in elsewhere, and returns it.
func (v *visit) accountOf(ctx context.Context, person *identity.Person) (*configv1.Account, error) {
	// The provider gives the role, within what the configuration lets it give. The audit log names the provider.
	client := api.InProcess(v.config.API, authz.Principal{Name: person.Provider.GetName(), Role: "identity provider",
		Scopes: authz.ScopesOf(configv1.Role_OWNER), As: accounts.SignIn, Address: v.Principal.Address})
	for range 3 { // somebody may change the account meanwhile
		revision := int64(0)
		item, err := client.Get(ctx, configv1.KindOf((*configv1.Account)(nil)), person.Name)
		if err == nil {
			revision = item.Status.Revision
		} else if e, ok := errors.AsType[*openai.Error](err); !ok || e.Status != http.StatusNotFound {
			return nil, err
		}
		stored, err := v.config.Accounts(ctx, person.Name)
		if err != nil {
			return nil, err
		}
		account, err := person.Account(stored)
		if less := person.Without(stored); err != nil && less != nil && revision != 0 {
			less.PasswordHash = "" // left out, it stays
			if _, failed := client.Put(ctx, less, revision); failed != nil {
				v.config.Log.Warn("dashboard: the account of a person without groups keeps its rights",
					zap.String("account", person.Name), zap.Error(failed))
			}
			return nil, err
		}
		if err != nil || stored != nil && proto.Equal(account, stored) {
			return account, err
		}
		account.PasswordHash = "" // left out, it stays, unless the account has a new holder
		givesWay := accounts.Find(stored, person.Identity) == accounts.GivesWay
		switch {
		case stored == nil:
			_, err = client.Create(ctx, account)
		case givesWay:
			// Nothing of it is kept, so that it was changed meanwhile keeps nobody out. If it does not give way any more,
			// the table refuses the change.
			_, err = client.Put(ctx, account, 0)
		case revision == 0:
			continue
		default:
			_, err = client.Put(ctx, account, revision)
		}
		if err == nil {
			return v.written(ctx, account)
		}
		if e, ok := errors.AsType[*openai.Error](err); !ok || e.Status != http.StatusPreconditionFailed &&
			e.Code != openai.CodeAlreadyExists && (!givesWay || e.Status != http.StatusForbidden) {
			return nil, err
		}
	}
	return nil, &openai.Error{Status: http.StatusConflict,
		Message: "Another user is changing your account. Sign in again."}
}

// written returns an account that was written just now, if it is still of the person.
func (v *visit) written(ctx context.Context, account *configv1.Account) (*configv1.Account, error) {
	now, err := v.config.Accounts(ctx, account.GetName())
	if err == nil && (now.Barred() || !proto.Equal(now.GetIdentity(), account.GetIdentity())) {
		return nil, page.ErrNotAllowed
	}
	return now, err
}

// A leftData is where somebody goes after the sign-out.
type leftData struct{ URL, Provider string }

// signOutAt leads to the page that ends the session at the identity provider. A form may lead to no other site, so it
// is a page that does.
func (v *visit) signOutAt(w http.ResponseWriter, r *http.Request, provider, idToken string) error {
	address := v.config.Identity.SignOut(r.Context(), provider, idToken, v.config.BaseURL+"/sign-in?done=signed_out")
	if address == "" {
		return v.GoTo(w, r, "/sign-in", "signed_out")
	}
	v.session, v.Account = nil, nil
	return v.Render(w, "signed-out", "Signed out", leftData{address, provider})
}
