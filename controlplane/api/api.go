// Package api serves the admin API: its routes and handlers, a type for each subject. Handlers ask packages config,
// audit and queries. Functions that are generated from openapi.yaml read the request for them and write the answer,
// unless an operation has several answers: then its handler does.
//
// A route says which scope it takes, and what it does for people of a tenant: without a rule it is closed to them. A
// route whose rule is "checked" is open, and its handler has to look whether the object is the tenant's.
package api

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/controlplane/queries"
	"github.com/modelgate/modelgate/controlplane/scim"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/telemetry"
	"github.com/modelgate/modelgate/internal/turns"
)

// Expire ends changes that have waited too long for approval, until its context ends. Each control plane may run it.
func Expire(c Config) func(context.Context) error { return config.New(c.service()).Approvals().Expire }

// New returns the handler of every path below /admin/v1/ and /scim/v2/, and of OpenAI's below /v1/organization/. A
// request whose context has a [Principal] is that principal's; any other needs a bearer token.
func New(c Config) http.Handler {
	changes := config.New(c.service())
	who := authz.NewAuthenticator(c.Token, authz.Authenticator{Store: c.Store, Hasher: c.Hasher, Terminals: c.Terminals,
		Log: c.Log})
	s := &server{config: c, who: who, changes: changes, queries: c.queries(changes),
		exports: turns.New(maxReads, maxReadQueue), sums: turns.New(maxReads, maxReadQueue),
		wholes: turns.NewPlaces(maxWholes), streams: turns.NewPlaces(maxStreams)}
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.method+" "+r.path, httpapi.Handler(c.Log, s.authorized(r)))
	}
	for pattern, allowed := range refused(s.routes()) {
		mux.Handle(pattern, notAllowed(allowed))
	}
	open := http.NewServeMux()
	open.Handle("GET /admin/v1/openapi.json", httpapi.Handler(c.Log, describe))
	open.Handle(scim.Path, scimHandlers{s}.provisioning())
	open.Handle("/", s.authenticated(httpapi.Mux(mux)))
	return httpapi.Recover(c.Log, limited(unredirected(open)))
}

// Queries returns what gathers the facts by which the API decides what needs attention, for others who decide by them.
func Queries(c Config) *queries.Service { return c.queries(config.New(c.service())) }

// Changes returns what changes the configuration, for others who do it by the same rules.
func Changes(c Config) *config.Service { return config.New(c.service()) }

// authorized checks the scope of a route, bounds the time of a request, and turns the store's errors into the
// client's.
func (s *server) authorized(r route) httpapi.HandlerFunc {
	if r.timeout == 0 {
		r.timeout = requestTimeout
	}
	if r.waits {
		r.timeout += adminapi.MaxWait
	}
	return func(w http.ResponseWriter, req *http.Request) error {
		if r.scope != "" {
			if err := authz.Needs(req.Context(), r.scope); err != nil {
				return err
			}
		}
		p, _ := authz.PrincipalOf(req.Context())
		req, err := r.tenants.within(req, p)
		if err != nil {
			return err
		}
		if r.waits {
			if _, _, err := waitOf(req); err != nil {
				return err
			}
		}
		if r.whole {
			leave, err := authz.TakePlace(req.Context(), s.wholes, "exports are running")
			if err != nil {
				return err
			}
			defer leave()
		}
		takes, err := boolOf(req, "take_over")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ledger.For(req.Context(), p.Queue()), r.timeout)
		defer cancel()
		if takes {
			ctx = owned.TakingOver(ctx)
		}
		if r.needs != nil {
			if err := r.needs(); err != nil {
				return clientError(err)
			}
		}
		return clientError(r.handler(w, req.WithContext(ctx)))
	}
}

// routes returns the routes and who may use each.
func (s *server) routes() []route {
	return slices.Concat(objectHandlers{s}.routes(), keyHandlers{s}.routes(), approvalHandlers{s}.routes(),
		usageHandlers{s}.routes(), requestHandlers{s}.routes(), bodyHandlers{s}.routes(), jobHandlers{s}.routes(),
		auditHandlers{s}.routes(), alertHandlers{s}.routes(), incidentHandlers{s}.routes(),
		statusHandlers{s}.routes())
}

// authenticated refuses strangers before it says anything about paths.
func (s *server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestID := id.New("req")
		w.Header().Set("X-Request-Id", requestID)
		ctx := authz.WithRequestID(r.Context(), requestID)
		if _, ok := authz.PrincipalOf(ctx); !ok {
			p, err := s.who.Principal(r)
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			ctx = authz.WithPrincipal(ctx, p)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	httpapi.Handler(s.config.Log, func(w http.ResponseWriter, _ *http.Request) error {
		if e, ok := errors.AsType[*openai.Error](err); ok && e.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="modelgate admin"`)
		}
		return clientError(err)
	}).ServeHTTP(w, r)
}

// refused returns the patterns of methods that paths do not have, though the pattern of any object may match them, and
// which methods they have.
func refused(routes []route) map[string]string {
	const ofAnyKind = "/admin/v1/{kind}"
	methods := map[string][]string{}
	for _, r := range routes {
		methods[r.path] = append(methods[r.path], r.method)
	}
	patterns := map[string]string{}
	for path, allowed := range methods {
		if slices.ContainsFunc(configv1.Kinds(), func(k configv1.Kind) bool { return path == "/admin/v1/"+k.Plural }) {
			allowed = slices.Concat(allowed, methods[ofAnyKind])
		}
		if slices.Contains(allowed, http.MethodGet) {
			allowed = append(slices.Clone(allowed), http.MethodHead)
		}
		slices.Sort(allowed)
		allowed = slices.Compact(allowed)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			if !slices.Contains(allowed, method) {
				patterns[method+" "+path] = strings.Join(allowed, ", ")
			}
		}
	}
	return patterns
}

func notAllowed(allowed string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		httpapi.WriteError(w, r, openai.CodeMethodNotSupported.New("Not allowed to %s on %s. Allowed: %s.", r.Method,
			r.URL.Path, allowed))
	})
}

// unredirected has no path that [http.ServeMux] would redirect to another one: a client that follows makes a GET of a
// change, which changes nothing and succeeds.
func unredirected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
			httpapi.WriteError(w, r, openai.UnknownURL(telemetry.Clip(r.Method), telemetry.Clip(r.URL.Path)))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limited bounds the time of a connection and keeps answers out of caches.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control, now := http.NewResponseController(w), time.Now()
		// Not if it is called in process: there is no connection.
		_ = control.SetReadDeadline(now.Add(readTimeout))
		_ = control.SetWriteDeadline(now.Add(writeTimeout))
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// describe answers with the description of the API, also to strangers: it is the same for every gateway.
func describe(w http.ResponseWriter, _ *http.Request) error {
	text, err := yaml.YAMLToJSON(adminapi.Description())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client has gone away; there is nobody to tell
	return nil
}
