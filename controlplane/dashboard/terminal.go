package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// A terminalData is the data of the pages on which a person lets a command line in.
type terminalData struct {
	Port, State, Challenge string // of a command line on the person's own machine
	Back                   string // where its answer is
	Typed                  string // of one elsewhere: the code that the person has typed
	Done                   bool
}

var errTerminal = &openai.Error{Status: http.StatusBadRequest,
	Message: "This link is not from modelgate login. Start it again."}

// ofLoopback reads what a command line on the person's own machine says in a link.
func ofLoopback(q url.Values) (terminalData, error) {
	d := terminalData{Port: q.Get("port"), State: q.Get("state"), Challenge: q.Get("challenge")}
	if n, err := strconv.ParseUint(d.Port, 10, 16); err != nil || n < 1024 || !isChallenge(d.Challenge) ||
		len(d.State) > 128 {
		return terminalData{}, errTerminal
	}
	return d, nil
}

func (v *visit) terminalForm(w http.ResponseWriter, r *http.Request) error {
	data, err := ofLoopback(r.URL.Query())
	if err != nil {
		return err
	}
	return v.Render(w, "terminal", "Sign in the command line", data)
}

// allowTerminal lets the command line in that listens on this machine, and leads to it. A form may lead to no other
// site, so it is a page that does.
func (v *visit) allowTerminal(w http.ResponseWriter, r *http.Request) error {
	data, err := ofLoopback(r.PostForm)
	if err != nil {
		return err
	}
	code, err := v.grants.make(r.Context(), grant{Challenge: data.Challenge, Session: v.lent()}, "")
	if err != nil {
		return err
	}
	back := url.URL{Scheme: "http", Host: "127.0.0.1:" + data.Port, Path: "/",
		RawQuery: url.Values{"code": {code}, "state": {data.State}}.Encode()}
	return v.Render(w, "terminal", "Sign in the command line", terminalData{Back: back.String()})
}

// lent returns the session that a command line gets of the person: it ends no later than the person's own.
func (v *visit) lent() session {
	ends := v.config.Now().Add(sessionIdle)
	if own := v.session.Ends; !own.IsZero() && own.Before(ends) {
		ends = own
	}
	return session{Account: v.Account.GetName(), Fingerprint: v.session.Fingerprint, Ends: ends, Terminal: true}
}

func (v *visit) deviceForm(w http.ResponseWriter, _ *http.Request) error {
	return v.Render(w, "terminal-code", "Sign in the command line", terminalData{})
}

func (v *visit) allowDevice(w http.ResponseWriter, r *http.Request) error {
	if wait := v.addresses.take(network(v.Principal.Address)); wait > 0 {
		return errTooMany(wait)
	}
	data := terminalData{Typed: r.PostForm.Get("code")}
	allowed, err := v.grants.allow(r.Context(), typedCode(data.Typed), v.lent())
	if err != nil {
		return err
	}
	if !allowed {
		return v.RenderStatus(w, http.StatusUnprocessableEntity, "terminal-code", "Sign in the command line", data,
			"No command line shows this code, or it was used, or it is older than ten minutes.")
	}
	v.addresses.giveBack(network(v.Principal.Address))
	data.Done = true
	return v.Render(w, "terminal-code", "Sign in the command line", data)
}

// programs are the endpoints for the command line itself, which answer with JSON.
func (d *Dashboard) programs(mux *http.ServeMux) {
	mux.Handle("POST "+adminapi.PathTerminalDevice+"/begin", httpapi.Handler(d.config.Log, d.beginDevice))
	mux.Handle("POST "+adminapi.PathTerminalToken, httpapi.Handler(d.config.Log, d.redeem))
	mux.Handle("POST "+adminapi.PathTerminalEnd, httpapi.Handler(d.config.Log, d.endTerminal))
}

// asked reads the body of a command line's request. The requests of an address are limited.
func (d *Dashboard) asked(w http.ResponseWriter, r *http.Request, into any) error {
	if wait := d.addresses.take(network(addressOf(r))); wait > 0 {
		return errTooMany(wait)
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<12)).Decode(into); err != nil {
		return openai.CodeInvalidJSON.New("The request is not JSON.")
	}
	return nil
}

// beginDevice begins the sign-in of a command line whose browser is on another machine.
func (d *Dashboard) beginDevice(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.DeviceRequest
	if err := d.asked(w, r, &asked); err != nil {
		return err
	}
	if !isChallenge(asked.Challenge) {
		return openai.CodeInvalidValue.On("challenge", "challenge: must be a SHA-256 in base64url.")
	}
	userCode := newUserCode()
	code, err := d.grants.make(r.Context(), grant{Challenge: asked.Challenge}, userCode)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Device{DeviceCode: code, UserCode: shownCode(userCode),
		URL: d.config.BaseURL + adminapi.PathTerminalDevice, ExpiresIn: int64(grantLife / time.Second),
		Interval: int64(deviceInterval / time.Second)})
}

// deviceInterval is how often a command line asks whether it was let in.
const deviceInterval = 5 * time.Second

// redeem answers with a session for a code.
func (d *Dashboard) redeem(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.GrantRequest
	if err := d.asked(w, r, &asked); err != nil {
		return err
	}
	found, err := d.grants.take(r.Context(), asked.Code, asked.Verifier)
	if err != nil {
		return err
	}
	if found == nil {
		return openai.CodeInvalidAdminToken.New("The code is not valid, was used, or is older than ten minutes. Start modelgate login again.")
	}
	d.addresses.giveBack(network(addressOf(r)))
	if found.Session.Account == "" {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.TerminalSession{Pending: true})
	}
	account, err := d.config.Accounts(r.Context(), found.Session.Account)
	if err != nil {
		return err
	}
	if account == nil || account.Barred() || fingerprint(account) != found.Session.Fingerprint {
		return page.ErrNotAllowed
	}
	id, err := d.sessions.begin(r.Context(), account, found.Session)
	if err != nil {
		return err
	}
	p := authz.PrincipalOfAccount(account, "", addressOf(r))
	d.audit(r.Context(), p, "sign_in_terminal", p.Name)
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.TerminalSession{Token: adminapi.SessionPrefix + id,
		Account: p.Name, Role: p.Role, ExpiresAt: found.Session.Ends})
}

// endTerminal ends the session of a command line. One that has ended already is no error.
func (d *Dashboard) endTerminal(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.TerminalSession
	if err := d.asked(w, r, &asked); err != nil {
		return err
	}
	id := strings.TrimPrefix(asked.Token, adminapi.SessionPrefix)
	s, account, err := d.resume(r.Context(), id, false)
	if err != nil {
		return err
	}
	if s != nil && s.Terminal {
		if err := d.sessions.end(r.Context(), id); err != nil {
			return err
		}
		p := authz.PrincipalOfAccount(account, "", addressOf(r))
		d.audit(r.Context(), p, "sign_out_terminal", p.Name)
	}
	return httpapi.WriteJSON(w, http.StatusOK, struct{}{})
}

// Terminals returns the account of the command line that sent a token. It is nil if the token has no session, or
// one that has ended.
func Terminals(etcd *clientv3.Client, accounts Accounts) func(context.Context, string) (*configv1.Account, error) {
	d := &Dashboard{config: Config{Accounts: accounts}, sessions: &sessions{etcd: etcd, now: time.Now}}
	return func(ctx context.Context, token string) (*configv1.Account, error) {
		s, account, err := d.resume(ctx, strings.TrimPrefix(token, adminapi.SessionPrefix), true)
		if s == nil || !s.Terminal {
			return nil, err
		}
		return account, err
	}
}
