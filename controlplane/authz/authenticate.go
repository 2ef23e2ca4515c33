package authz

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
)

// A token of administration is "mg", the name of its object and, after a dot, at least 128 random bits:
// mgadm_01JD....XXXX. By the name its object is read, one key of etcd, so that a token that was deleted is refused
// from then on.
const (
	tokenPrefix   = "mg"
	TokenIDPrefix = "adm"

	// readTokenTimeout bounds the time to read a token and its maker.
	readTokenTimeout = 5 * time.Second
)

// NewToken returns a token of administration for the object of a name.
func NewToken(name string) secret.Value {
	return secret.New(tokenPrefix + name + "." + rand.Text())
}

type requestIDKey struct{}

// WithRequestID returns a context of a request with an id.
func WithRequestID(ctx context.Context, requestID string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, requestID)
}

// RequestIDOf returns the id of a request; empty: it has none.
func RequestIDOf(ctx context.Context) string {
	requestID, _ := ctx.Value(requestIDKey{}).(string)
	return requestID
}

// errSignedOut is the error of a command line whose session has ended.
var errSignedOut = openai.CodeInvalidAdminToken.New("Your sign-in has ended. Sign in again with: modelgate login")

// An Authenticator finds out who sends a request by its bearer token.
type Authenticator struct {
	// Store has the tokens and the accounts.
	Store *configstore.Store
	// Hasher hashes tokens as they are stored.
	Hasher *auth.Hasher
	// Terminals returns whose command line sent a token that begins with [adminapi.SessionPrefix]; nil if it is not
	// signed in. Nil: nobody's.
	Terminals func(ctx context.Context, token string) (*configv1.Account, error)
	Log       *zap.Logger

	root     [sha256.Size]byte // hash of the token that may do everything
	hasRoot  bool
	throttle *tokenThrottle
}

// NewAuthenticator returns one that has counted no wrong tokens. The bearer of root may do everything.
func NewAuthenticator(root secret.Value, a Authenticator) *Authenticator {
	a.root, a.hasRoot = sha256.Sum256([]byte(root.Reveal())), !root.IsZero()
	a.throttle = newTokenThrottle(time.Now)
	return &a
}

// Principal returns the principal whose token a request has. An address that has sent too many wrong tokens has to
// wait, whatever it sends.
func (a *Authenticator) Principal(r *http.Request) (Principal, error) {
	address := addressOf(r)
	if wait := a.throttle.wait(address); wait > 0 {
		return Principal{}, openai.CodeTooManyFailedAttempts.New("Your address sent too many wrong tokens. Wait before you try again.").After(wait)
	}
	token, given := auth.FromHeader(r.Header.Get("Authorization"))
	// Hashes have one length, so that the time taken says nothing about the token's.
	sum := sha256.Sum256([]byte(token))
	if given && a.hasRoot && subtle.ConstantTimeCompare(sum[:], a.root[:]) == 1 {
		return Principal{Name: NameRoot, Role: "owner", Scopes: []Scope{Everything}, Address: address}, nil
	}
	if given {
		p, err := a.ofBearer(r, token)
		if err == nil || !errors.Is(err, configstore.ErrNotFound) {
			p.Address = address
			return p, err
		}
		if a.throttle.failed(address) {
			a.Log.Warn("too many wrong tokens from one address, which now has to wait", zap.String("address", address))
		}
		if strings.HasPrefix(token, adminapi.SessionPrefix) {
			return Principal{}, errSignedOut
		}
	}
	return Principal{}, openai.CodeInvalidAdminToken.New("Send an admin token in an Authorization header using Bearer auth. One is in the file admin-token of the gateway's data directory.")
}

// ofBearer returns the principal of a token, or of the session of a command line. The error is ErrNotFound if there
// is none, or not any more.
func (a *Authenticator) ofBearer(r *http.Request, token string) (Principal, error) {
	if a.Terminals == nil || !strings.HasPrefix(token, adminapi.SessionPrefix) {
		return a.ofToken(r.Context(), token)
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTokenTimeout)
	defer cancel()
	account, err := a.Terminals(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	if account == nil {
		return Principal{}, configstore.ErrNotFound
	}
	return PrincipalOfAccount(account, r.Header.Get(adminapi.HeaderTenant), ""), nil
}

// ofToken returns the principal of a token. The error is ErrNotFound if there is no such token, or not any more.
func (a *Authenticator) ofToken(ctx context.Context, token string) (Principal, error) {
	name, _, ok := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	if !ok || !strings.HasPrefix(token, tokenPrefix) || !id.Valid(TokenIDPrefix, name) {
		return Principal{}, configstore.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, readTokenTimeout)
	defer cancel()
	entry, err := a.Store.Get(ctx, configv1.KindOf((*configv1.AdminToken)(nil)), name)
	if err != nil {
		return Principal{}, err
	}
	stored, ok := entry.Object.(*configv1.AdminToken)
	hash := a.Hasher.Hash(token)
	expired := ok && stored.GetExpiresAt() != nil && !stored.GetExpiresAt().AsTime().After(time.Now())
	if !ok || expired || subtle.ConstantTimeCompare(hash[:], stored.GetHash()) != 1 {
		return Principal{}, configstore.ErrNotFound
	}
	p := Principal{Name: name, Role: RoleToken, Tenant: Tenant{stored.GetOrganization(), stored.GetProject()},
		Provider: stored.GetIdentityProvider(), Maker: stored.GetOwner()}
	for _, scope := range stored.GetScopes() {
		p.Scopes = append(p.Scopes, Scope(scope))
	}
	return a.asMaker(ctx, p)
}

// addressOf returns the address that a request came from. Headers that proxies write are not believed.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return host
}
