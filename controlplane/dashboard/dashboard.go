// Package dashboard serves the web pages for administration. It uses only the admin API, which it calls in process
// with the signed-in account, so that roles, validation and the audit log are in one place. This package is the shell:
// sessions, sign-in and the person's own account. All other pages are in folders of sections, one for each subject.
//
// A page that hides a button protects nothing. The API decides what an account may do. The pages only hide what the
// API would refuse.
package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/overview"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/providers"
	"github.com/modelgate/modelgate/controlplane/identity"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// Accounts returns the account of a name, as it is stored, or nil if there is none. It must be safe for concurrent
// use.
type Accounts func(ctx context.Context, name string) (*configv1.Account, error)

// AccountsOf reads accounts from the configuration.
func AccountsOf(store *configstore.Store) Accounts {
	return func(ctx context.Context, name string) (*configv1.Account, error) {
		e, err := store.Get(ctx, configv1.KindOf((*configv1.Account)(nil)), name)
		if errors.Is(err, configstore.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		account, ok := e.Object.(*configv1.Account)
		if !ok {
			return nil, e.Err
		}
		return account, nil
	}
}

// Config configures the dashboard. Every field is required unless its comment says otherwise.
type Config struct {
	// API is the handler of the admin API.
	API http.Handler
	// Etcd holds the sessions of those who are signed in, and the links that let the first one in.
	Etcd     *clientv3.Client
	Accounts Accounts
	// Identity signs people in with accounts elsewhere.
	Identity *identity.Service
	// Audit records that somebody signed in or out, or tried to; the API records what they do.
	Audit func(context.Context, adminapi.AuditEntry) error
	// Gateway returns where the gateway is, without /v1, and what reaches it, for the playground. The URL is empty while
	// the gateway is not known. Optional.
	Gateway func() (baseURL string, transport http.RoundTripper)
	// RootToken is the admin token of the data directory. POST /sign-in/link makes a link with it.
	RootToken secret.Value
	// BaseURL is where people reach the dashboard, such as https://127.0.0.1:8081: links begin with it.
	BaseURL string
	// TraceURL is where people see a trace, with {trace_id} in it. Empty: nowhere.
	TraceURL string
	// Vendors are those that providers may be of, sorted by name.
	Vendors []providers.Vendor
	Log     *zap.Logger
	// Steps remembers that somebody has dismissed the first steps. Optional: etcd does.
	Steps overview.Steps
	// Now is the clock. Optional.
	Now func() time.Time
}

// A Dashboard is a handler of all paths that are not the admin API's. It is safe for concurrent use.
type Dashboard struct {
	config    Config
	handler   http.Handler
	site      *page.Site
	sessions  *sessions
	links     *links
	grants    *grants
	addresses *throttle // of sign-in, by address
	names     *throttle // and by account
}

// New returns a dashboard.
func New(c Config) *Dashboard {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Steps == nil {
		c.Steps = firstSteps{c.Etcd}
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.Gateway == nil {
		c.Gateway = func() (string, http.RoundTripper) { return "", nil }
	}
	d := &Dashboard{
		config: c,
		site: page.NewSite(page.Config{API: c.API, Static: staticURL, Log: c.Log, Now: c.Now},
			slices.Concat(sections(c), []page.Section{shell()})),
		sessions: &sessions{etcd: c.Etcd, now: c.Now},
		links:    &links{etcd: c.Etcd},
		grants:   &grants{etcd: c.Etcd},
		// Ten at once and ten a minute from one address; twenty at once and two a minute for one account, wherever from.
		addresses: newThrottle(10, 6*time.Second, c.Now),
		names:     newThrottle(20, 30*time.Second, c.Now),
	}
	d.handler = d.routes()
	return d
}

// ServeHTTP answers with a page.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// A handler answers a path of the shell. It returns an error before it has written anything.
type handler func(*visit, http.ResponseWriter, *http.Request) error

func (d *Dashboard) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range d.site.Routes() {
		mux.Handle(r.Pattern, d.guarded(func(v *visit, w http.ResponseWriter, in *http.Request) error {
			return r.Serve(v.Visit, w, in)
		}))
	}
	for pattern, h := range ownPages() {
		mux.Handle(pattern, d.guarded(h))
	}
	mux.Handle("GET /sign-in", d.open((*visit).signInForm))
	mux.Handle("POST /sign-in", d.open((*visit).signIn))
	mux.Handle("GET "+withPath+"{provider}", d.open((*visit).signInWith))
	mux.Handle("GET "+withPath+"{provider}/back", d.open((*visit).backFrom))
	mux.Handle("GET /sign-in/first", d.open((*visit).firstForm))
	mux.Handle("POST /sign-in/first", d.open((*visit).first))
	mux.Handle("POST /theme", d.open((*visit).setTheme))
	mux.HandleFunc("POST /sign-in/link", d.makeLink)
	d.programs(mux)
	mux.Handle("GET /static/", static())
	mux.Handle("/", d.open(func(*visit, http.ResponseWriter, *http.Request) error { return page.ErrNoPage }))
	return d.secured(mux)
}

// visitor finds who asks, if a session says so.
func (d *Dashboard) visitor(w http.ResponseWriter, r *http.Request) (*visit, error) {
	v := &visit{Dashboard: d, Visit: d.site.Visit(r, themeOf(r))}
	v.Principal.Address, v.SessionID = addressOf(r), sessionIDOf(r)
	// What a page refreshes by itself does not show that anybody is there.
	s, account, err := d.resume(r.Context(), v.SessionID, r.Header.Get("HX-Request") == "")
	if err != nil {
		return v, err
	}
	if account == nil || s.Terminal {
		v.FormToken = formToken(formCookieOf(w, r))
		return v, nil
	}
	v.session, v.Account, v.FormToken = s, account, formToken(v.SessionID)
	v.Principal = authz.PrincipalOfAccount(account, actsFor(r, account), v.Principal.Address)
	v.API = api.InProcess(d.config.API, v.Principal).Waiting(takenWithin, func(string) { v.Pending = true })
	return v, nil
}

// takenWithin is how long a change waits until the data plane has taken it.
const takenWithin = 10 * time.Second

// resume returns a session and its account. The account is nil if the session has ended or the account has changed
// since.
func (d *Dashboard) resume(ctx context.Context, id string, used bool) (*session, *configv1.Account, error) {
	if id == "" {
		return nil, nil, nil
	}
	s, err := d.sessions.find(ctx, id, used)
	if s == nil || err != nil {
		return nil, nil, err
	}
	account, err := d.config.Accounts(ctx, s.Account)
	if err != nil {
		return nil, nil, err
	}
	if account == nil || account.Barred() || fingerprint(account) != s.Fingerprint {
		return nil, nil, d.sessions.end(ctx, id)
	}
	return s, account, nil
}

// open serves a page to everybody.
func (d *Dashboard) open(h handler) http.Handler {
	return d.serve(func(v *visit, w http.ResponseWriter, r *http.Request) error {
		if err := v.checkForm(r); err != nil {
			return err
		}
		return h(v, w, r)
	})
}

// guarded serves a page to those who are signed in.
func (d *Dashboard) guarded(h handler) http.Handler {
	return d.serve(func(v *visit, w http.ResponseWriter, r *http.Request) error {
		if v.session == nil {
			v.toSignIn(w, r)
			return nil
		}
		if err := v.checkForm(r); err != nil {
			return err
		}
		return h(v, w, r)
	})
}

func (d *Dashboard) serve(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A form that comes slowly must not keep the rights that its sender had when it began.
		broken := readForm(w, r)
		v, err := d.visitor(w, r)
		if err == nil {
			err = broken
		}
		if err == nil {
			err = h(v, w, r)
		}
		if err != nil {
			v.ShowError(w, r, err)
		}
	})
}
