package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/queries"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/turns"
)

// A server has the state that the handlers of all subjects share.
type server struct {
	config  Config
	who     *authz.Authenticator
	changes *config.Service
	queries *queries.Service
	exports *turns.Turns  // of those who have a table made
	sums    *turns.Turns  // of those who have findings summed up
	wholes  *turns.Places // of answers that are whole in memory until their client has read them; nobody waits
	streams *turns.Places // maxStreams: whoever has the request log exported; nobody waits
}

const (
	// requestTimeout bounds the time of a request, and applyTimeout that of one that changes many objects.
	requestTimeout = 5 * time.Second
	applyTimeout   = 25 * time.Second
	// readTimeout and writeTimeout bound how slowly a client may send a request and take its answer.
	readTimeout  = 30 * time.Second
	writeTimeout = 90 * time.Second
)

// An operation is what openapi.yaml says of an endpoint, with its handler.
type operation struct {
	method, path string
	waits        bool // the change may be waited for, for adminapi.MaxWait longer
	handler      httpapi.HandlerFunc
}

// at returns an operation. The name of an object at the end of a path may have slashes.
func at(method, path string, waits bool, handler httpapi.HandlerFunc) operation {
	return operation{method, strings.Replace(path, "{kind}/{name}", "{kind}/{name...}", 1), waits, handler}
}

// A route is an operation, with who may use it and what it needs.
type route struct {
	operation
	// scope is empty if it depends on the kind of the object, and the handler checks it.
	scope   authz.Scope
	needs   func() error  // returns an error if the control plane cannot do it; nil: nothing
	timeout time.Duration // 0: requestTimeout
	whole   bool          // the answer may be large, and is whole in memory until the client has read it
	tenants tenantRule    // what it does for principals who are restricted to a tenant
}

// A tenantRule says how a route treats a principal who is restricted to a tenant.
type tenantRule uint8

const (
	closed  tenantRule = iota // it is not for them
	queried                   // the query is restricted to the tenant
	checked                   // the handler checks whether its object is the tenant's
)

// within returns the request of a principal who is restricted to a tenant, as a route allows it.
func (t tenantRule) within(r *http.Request, p authz.Principal) (*http.Request, error) {
	switch {
	case p.Tenant.IsAll() || t == checked:
		return r, nil
	case t == closed:
		return nil, authz.NotForTenant(p.Tenant)
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badQuery(err)
	}
	for name, own := range map[string]string{"organization": p.Tenant.Organization, "project": p.Tenant.Project} {
		for given, values := range query {
			is := given == name || strings.HasPrefix(given, name+"[") // lists are also written name[]
			if own != "" && is && (given != name || slices.ContainsFunc(values, func(v string) bool { return v != own })) {
				return nil, authz.NotForTenant(p.Tenant)
			}
		}
		if own != "" {
			query.Set(name, own)
		}
	}
	restricted := r.Clone(r.Context())
	restricted.URL.RawQuery = query.Encode()
	return restricted, nil
}

// hasLedger returns an error if there is no ledger.
func (s *server) hasLedger() error {
	if s.config.Ledger == nil {
		return ledger.Unavailable(ledger.ErrNone)
	}
	return nil
}

// note writes into the audit log who did what with something that is not an object of the configuration. People of the
// tenants that it is about see the entry.
func (s *server) note(ctx context.Context, action, kind, name, what string, about ...authz.Tenant) error {
	p, _ := authz.PrincipalOf(ctx)
	return s.config.Audit.Audit(ctx, adminapi.AuditEntry{Actor: p.Name, Role: p.Role, Address: p.Address, Action: action,
		Kind: kind, Name: name, Diff: what, RequestID: authz.RequestIDOf(ctx), Tenants: audit.ViewsOf(p, about)})
}

// export waits until few other tables are being made, and returns what is to be called when this one is made.
func (s *server) export(ctx context.Context) (leave func(), err error) {
	return authz.TakeTurn(ctx, s.exports, "exports are running")
}

// maxWholes is how many large answers are in memory at once. A client that reads slowly holds one, and nothing else.
const maxWholes = 16

// maxReads is how many tables are made, and findings summed up, at once, and maxReadQueue how many of one owner wait.
const maxReads, maxReadQueue = 2, 4
