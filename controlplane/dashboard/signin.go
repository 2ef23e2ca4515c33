package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/internal/password"
)

// wrong returns the text of a failed sign-in. It does not say whether there is such an account.
func (d signInData) wrong() string {
	if d.Replaced() {
		return "The name or the password is wrong, or the account cannot use a password: sign in with " +
			d.Providers[0].Title() + "."
	}
	return "The name or the password is wrong."
}

// A signInData is what the form of sign-in shows.
type signInData struct {
	Name, Next string
	Providers  []*configv1.IdentityProvider
}

// Replaced reports whether passwords are for emergencies only.
func (d signInData) Replaced() bool {
	return slices.ContainsFunc(d.Providers, (*configv1.IdentityProvider).GetReplacesPasswords)
}

func (v *visit) signInForm(w http.ResponseWriter, r *http.Request) error {
	data := signInData{Next: ownPath(r.URL.Query().Get("next"))}
	if v.session != nil {
		return v.GoTo(w, r, data.Next, "")
	}
	var err error
	if data.Providers, err = v.config.Identity.Providers(r.Context()); err != nil {
		return err
	}
	return v.Render(w, "sign-in", "Sign in", data)
}

func (v *visit) signIn(w http.ResponseWriter, r *http.Request) error {
	name, next := strings.TrimSpace(r.PostForm.Get("name")), ownPath(r.PostForm.Get("next"))
	if stored, err := configv1.AccountName(name); err == nil {
		name = stored
	}
	providers, err := v.config.Identity.Providers(r.Context())
	if err != nil {
		return err
	}
	data := signInData{name, next, providers}
	if err := v.throttled(name); err != nil {
		w.Header().Set("Retry-After", err.Header().Get("Retry-After"))
		return v.RenderStatus(w, err.Status, "sign-in", "Sign in", data, err.Message)
	}
	account, err := v.config.Accounts(r.Context(), name)
	if err != nil {
		return err
	}
	// It takes as long if there is no such account.
	good := password.Verify(account.GetPasswordHash(), r.PostForm.Get("password"))
	if account == nil || account.Barred() || !good || data.Replaced() && !account.GetBreakGlass() {
		failed := authz.Principal{Address: v.Principal.Address}
		if account != nil { // what is typed there by mistake may be a password
			failed.Name, failed.Tenant = account.GetName(), authz.PrincipalOfAccount(account, "", "").Tenant
		}
		v.audit(r.Context(), failed, "sign_in_failed", failed.Name)
		return v.RenderStatus(w, http.StatusUnauthorized, "sign-in", "Sign in", data, data.wrong())
	}
	v.addresses.giveBack(network(v.Principal.Address))
	v.names.giveBack(name)
	return v.enter(w, r, account, session{}, next)
}

// enter begins a session, always under a new id, and leads on. Began says how, if that was not a password.
func (v *visit) enter(w http.ResponseWriter, r *http.Request, account *configv1.Account, began session,
	next string) error {
	v.leave(r)
	session, err := v.sessions.begin(r.Context(), account, began)
	if err != nil {
		return err
	}
	setCookie(w, sessionCookie, session, sessionLife)
	p := authz.PrincipalOfAccount(account, "", v.Principal.Address)
	v.audit(r.Context(), p, "sign_in", p.Name)
	return v.GoTo(w, r, next, "")
}

// leave ends the session that the browser has, if any.
func (v *visit) leave(r *http.Request) {
	if id := sessionIDOf(r); id != "" {
		if err := v.sessions.end(r.Context(), id); err != nil {
			v.config.Log.Warn("dashboard: a session could not be ended", zap.Error(err))
		}
	}
}

func (v *visit) signOut(w http.ResponseWriter, r *http.Request) error {
	v.Leave(r.Context())
	provider, idToken := v.session.Provider, v.session.IDToken
	if err := v.sessions.end(r.Context(), sessionIDOf(r)); err != nil {
		return err
	}
	setCookie(w, sessionCookie, "", -time.Second)
	v.audit(r.Context(), v.Principal, "sign_out", v.Principal.Name)
	if provider != "" {
		return v.signOutAt(w, r, provider, idToken)
	}
	return v.GoTo(w, r, "/sign-in", "signed_out")
}

// throttled counts an attempt to sign in, and refuses it if there were too many.
func (v *visit) throttled(name string) *openai.Error {
	wait := v.addresses.take(network(v.Principal.Address))
	if wait == 0 {
		wait = v.names.take(name)
	}
	if wait == 0 {
		return nil
	}
	return errTooMany(wait)
}

func errTooMany(wait time.Duration) *openai.Error {
	seconds := (wait + time.Second - 1) / time.Second
	return openai.CodeTooManyFailedAttempts.New("Too many attempts. Try again in %d seconds.", seconds).After(wait)
}

// network returns the part of an address that counts as one client. For IPv6 it is a /64.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	p, _ := a.WithZone("").Prefix(64) // which every IPv6 address has
	return p.String()
}

// audit records what the API does not see.
func (d *Dashboard) audit(ctx context.Context, p authz.Principal, action, name string) {
	e := adminapi.AuditEntry{At: d.config.Now(), Actor: p.Name, Role: p.Role, Address: p.Address, Action: action,
		Kind: "Account", Name: name, Tenants: audit.ViewsOfPrincipal(p)}
	if err := d.config.Audit(ctx, e); err != nil {
		d.config.Log.Error("dashboard: nothing could be written to the audit log", zap.String("action", action),
			zap.Error(err))
	}
}

// A firstData is what the form of the first account shows.
type firstData struct{ Token, Name, DisplayName string }

var errLink = &openai.Error{Status: http.StatusGone,
	Message: "This link is not valid: it was used, it is older than a day, or an owner already exists. Sign in, or create a new link with: modelgate dashboard link"}

// usable returns a link that can be used now.
func (v *visit) usable(ctx context.Context, token string) (*link, error) {
	if wait := v.addresses.take(network(v.Principal.Address)); wait > 0 {
		return nil, errTooMany(wait)
	}
	k, err := v.links.find(ctx, token)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, errLink
	}
	if k.First {
		owned, err := v.owned(ctx)
		if err != nil {
			return nil, err
		}
		if owned {
			return nil, errLink
		}
	}
	v.addresses.giveBack(network(v.Principal.Address))
	return k, nil
}

func (v *visit) firstForm(w http.ResponseWriter, r *http.Request) error {
	token := r.URL.Query().Get("token")
	if _, err := v.usable(r.Context(), token); err != nil {
		return err
	}
	return v.Render(w, "first", "Welcome", firstData{Token: token})
}

// first makes an owner's account and signs it in.
func (v *visit) first(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	data := firstData{f.Get("token"), strings.TrimSpace(f.Get("name")), strings.TrimSpace(f.Get("display_name"))}
	k, err := v.usable(r.Context(), data.Token)
	if err != nil {
		return err
	}
	there, err := v.config.Accounts(r.Context(), data.Name)
	if err != nil {
		return err
	}
	if there != nil {
		return v.RenderStatus(w, http.StatusConflict, "first", "Welcome", data,
			"An account with this name already exists. Choose another name.")
	}
	taken, err := v.links.take(r.Context(), data.Token)
	if err != nil {
		return err
	}
	if !taken {
		return errLink
	}
	p := authz.Principal{Name: data.Name, Role: "owner", Scopes: authz.ScopesOf(configv1.Role_OWNER),
		Address: v.Principal.Address}
	account := &configv1.Account{Name: data.Name, DisplayName: data.DisplayName, Role: configv1.Role_OWNER,
		Password: f.Get("password"), BreakGlass: true}
	if _, err := api.InProcess(v.config.API, p).Create(r.Context(), account); err != nil {
		if err := v.links.putBack(r.Context(), data.Token, k); err != nil {
			v.config.Log.Error("dashboard: a link is lost", zap.Error(err))
		}
		if message, ok := page.Refused(err); ok {
			return v.RenderStatus(w, http.StatusUnprocessableEntity, "first", "Welcome", data, message)
		}
		return err
	}
	return v.enterByName(w, r, data.Name, "/")
}

// enterByName is enter for an account that has just been written.
func (v *visit) enterByName(w http.ResponseWriter, r *http.Request, name, next string) error {
	account, err := v.config.Accounts(r.Context(), name)
	if err != nil {
		return err
	}
	if account == nil {
		return errors.New("an account that was written is not there")
	}
	return v.enter(w, r, account, session{}, next)
}

func (v *visit) profile(w http.ResponseWriter, _ *http.Request) error {
	return v.Render(w, "profile", "Your account", nil)
}

// changePassword changes the password of whoever is signed in, and ends all other sessions.
func (v *visit) changePassword(w http.ResponseWriter, r *http.Request) error {
	if err := v.throttled(v.Account.GetName()); err != nil {
		return err
	}
	if !password.Verify(v.Account.GetPasswordHash(), r.PostForm.Get("current")) {
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "profile", "Your account", nil,
			"The current password is wrong.")
	}
	v.addresses.giveBack(network(v.Principal.Address))
	v.names.giveBack(v.Account.GetName())
	// People may change their own password whatever their role is.
	p := v.Principal
	p.As = accounts.Person
	p.Scopes = append([]authz.Scope{authz.AdminsWrite}, p.Scopes...)
	item, err := api.InProcess(v.config.API, p).Get(r.Context(), configv1.KindOf((*configv1.Account)(nil)), p.Name)
	if err != nil {
		return err
	}
	// It is read after its revision: an account that is deleted, disabled or demoted meanwhile is not written as it was.
	_, account, err := v.resume(r.Context(), sessionIDOf(r), false)
	if err != nil {
		return err
	}
	if account == nil {
		return errForm
	}
	changed := proto.CloneOf(account)
	changed.PasswordHash, changed.Password = "", r.PostForm.Get("password")
	if _, err := api.InProcess(v.config.API, p).Put(r.Context(), changed, item.Status.Revision); err != nil {
		if message, ok := page.Refused(err); ok {
			return v.RenderStatus(w, http.StatusUnprocessableEntity, "profile", "Your account", nil, message)
		}
		return err
	}
	return v.enterByName(w, r, v.Account.GetName(), "/account?done=password")
}

// setTenant has somebody act under one of their memberships.
func (v *visit) setTenant(w http.ResponseWriter, r *http.Request) error {
	setCookie(w, tenantCookie, r.PostForm.Get("tenant"), 365*24*time.Hour)
	return v.GoTo(w, r, "/", "")
}

func (v *visit) setTheme(w http.ResponseWriter, r *http.Request) error {
	theme := r.PostForm.Get("theme")
	if theme != "light" && theme != "dark" {
		theme = "system"
	}
	setCookie(w, themeCookie, theme, 365*24*time.Hour)
	return v.GoTo(w, r, ownPath(r.PostForm.Get("next")), "")
}
