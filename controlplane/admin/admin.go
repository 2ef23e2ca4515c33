// Package admin serves the admin API: it reads and writes the configuration, creates keys and tokens, and answers
// queries about usage and changes.
//
// A route says which scope it takes, and what it does for people of a tenant: without a rule it is closed to them. A
// route whose rule is "checked" is open, and its handler has to look whether the object is the tenant's.
package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/controlplane/scim"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/turns"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// Config is what the API works with. Every field is required that does not say otherwise.
type Config struct {
	Store *configstore.Store
	// Sealer seals credentials before they are stored.
	Sealer *secret.Sealer
	// Hasher hashes the keys and tokens that are made.
	Hasher *auth.Hasher
	// Token may do everything.
	Token secret.Value
	// Terminals returns whose command line sent a token that begins with [adminapi.SessionPrefix]; nil where it is not
	// signed in. Nil: nobody's.
	Terminals func(ctx context.Context, token string) (*configv1.Account, error)
	// Identity tests identity providers. Nil: they cannot be tested.
	Identity interface {
		Test(ctx context.Context, p *configv1.IdentityProvider) error
	}
	// Vendors are those that providers may be of.
	Vendors configv1.Vendors
	// Allowed says which variables and files objects may name. Nil: none.
	Allowed *allowed.List
	// Variable returns one of the control plane's environment. Nil: it is not looked whether variables that objects name
	// are set.
	Variable func(name string) (string, bool)
	Plane    Plane
	// Await returns when the data plane has taken a revision of the configuration, or when ctx ends: then it says who has
	// not. Nil: nothing is waited for.
	Await func(ctx context.Context, revision int64) []string
	// Audit takes an entry for every change.
	Audit *audit.Log
	// Ledger may be nil: what asks for it is then a 503.
	Ledger *ledger.Ledger
	Jobs   Jobs
	Batch  OneBatch
	Quotas Quotas
	// Bodies are those of exchanges that are kept. Nil: none.
	Bodies Bodies
	// Alerts may be nil: what asks for them is then a 404.
	Alerts Alerts
	// Sinks are those of the audit log. Nil: there are none.
	Sinks Sinks
	// Version of this control plane.
	Version string
	Log     *zap.Logger
}

type server struct {
	config    Config
	who       *authz.Authenticator
	changes   *config.Service
	attentive shared[[]adminapi.Attention]
	budgeted  shared[[]adminapi.BudgetUse]
	exports   *turns.Turns // of those who have a table made: it is whole in memory
	sums      *turns.Turns // of those who have findings summed up
	trials    *turns.Turns // of those who try policies
	streams   *turns.Turns // of maxStreams: whoever has the request log exported; nobody waits
}

// service returns the options of the service that reads and changes the configuration.
func (c Config) service() config.Options {
	return config.Options{Store: c.Store, Audit: c.Audit, Sealer: c.Sealer, Hasher: c.Hasher, Vendors: c.Vendors,
		Allowed: c.Allowed, Variable: c.Variable, Keys: c.Plane.Keys, Log: c.Log}
}

// Expire ends changes that have waited too long for approval, until its context ends. Each control plane may run it.
func Expire(c Config) func(context.Context) error { return config.New(c.service()).Approvals().Expire }

// New returns the handler of every path below /admin/v1/ and /scim/v2/, and of OpenAI's below /v1/organization/. A
// request whose context has a [Principal] is that principal's; any other needs a bearer token.
func New(c Config) http.Handler {
	s := &server{config: c, who: authz.NewAuthenticator(c.Token, authz.Authenticator{Store: c.Store, Hasher: c.Hasher,
		Terminals: c.Terminals, Log: c.Log}), changes: config.New(c.service()), exports: turns.New(maxReads, maxReadQueue),
		sums: turns.New(maxReads, maxReadQueue), trials: turns.New(maxTrials, maxTrialQueue),
		streams: turns.New(maxStreams, 0)}
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.pattern, httpapi.Handler(c.Log, s.guarded(r)))
	}
	for pattern, allowed := range refused(s.routes()) {
		mux.Handle(pattern, notAllowed(allowed))
	}
	open := http.NewServeMux()
	open.Handle("GET /admin/v1/openapi.json", httpapi.Handler(c.Log, describe))
	open.Handle(scim.Path, s.provisioning())
	open.Handle("/", s.authenticated(httpapi.Mux(mux)))
	return httpapi.Recover(c.Log, limited(unredirected(open)))
}

// clientError returns what the client is told of an error.
func clientError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*openai.Error](err); ok {
		return err
	}
	if invalid, ok := errors.AsType[configv1.Errors](err); ok {
		return openai.CodeInvalidObject.On(invalid[0].Field, "%s", invalid.Error())
	}
	switch {
	case errors.Is(err, configstore.ErrNotFound):
		return openai.CodeNotFound.New("%s", err.Error())
	case errors.Is(err, configstore.ErrConflict):
		return openai.CodeConflict.New("Other clients changed the configuration at the same time. Try again.")
	case errors.Is(err, configstore.ErrTooLarge), errors.Is(err, rpctypes.ErrRequestTooLarge):
		return openai.CodeObjectTooLarge.New("%s", err.Error())
	case errors.Is(err, configstore.ErrUnfinished):
		return httpapi.WithCause(openai.CodeApplyUnfinished.New("The changes are accepted, but etcd has not stored all of them yet. The control planes store the rest as soon as etcd allows. The changes take effect together.").After(10*time.Second), err)
	case errors.Is(err, configstore.ErrRestoring):
		return openai.CodeStoreRestoring.New("A backup is being restored. Changes are refused until the restore is complete.").After(10 * time.Second)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return httpapi.WithCause(openai.CodeStoreFull.New("etcd is full: it refuses new data, but you can delete objects. The control plane frees space where it can. Run modelgate doctor to see what else to do.").After(10*time.Second), err)
	}
	if !fromStore(err) {
		return err
	}
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok && refuses(e.Code()) {
		return httpapi.WithCause(openai.CodeStoreRefused.New("The configuration store refused the request: %s.",
			e.Error()), err)
	}
	return httpapi.WithCause(openai.CodeStoreUnavailable.New("The configuration store is unreachable. Traffic continues with the last configuration."), err)
}

// refuses reports whether a code of etcd's says that it was reached and would not.
func refuses(c codes.Code) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied,
		codes.Unauthenticated, codes.ResourceExhausted, codes.OutOfRange}, c)
}

// fromStore reports whether etcd, or a database, did not answer.
func fromStore(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	var e rpctypes.EtcdError
	return errors.As(err, &e) || status.Code(err) != codes.Unknown
}

func badQuery(err error) error {
	return openai.CodeInvalidValue.New("The query of the URL is malformed: %v.", err)
}

func givenTwice(parameter string) error {
	return openai.CodeInvalidValue.On(parameter, "The parameter %s may be given only once.", parameter)
}
