package admin

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
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
)

// A token of administration is "mg", the name of its object and, after a dot, at least 128 random bits:
// mgadm_01JD....XXXX. By the name its object is read, one key of etcd, so that a token that was deleted is refused
// from then on.
const (
	tokenPrefix   = "mg"
	tokenIDPrefix = "adm"
)

func newTokenSecret(name string) secret.Value {
	return secret.New(tokenPrefix + name + "." + rand.Text())
}

// authenticated refuses strangers before it says anything about paths.
func (s *server) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requestID := id.New("req")
		w.Header().Set("X-Request-Id", requestID)
		ctx := context.WithValue(r.Context(), requestIDKey{}, requestID)
		if _, ok := PrincipalOf(ctx); !ok {
			p, err := s.principal(r)
			if err != nil {
				s.refuse(w, r, err)
				return
			}
			ctx = WithPrincipal(ctx, p)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

type requestIDKey struct{}

func requestIDOf(ctx context.Context) string {
	requestID, _ := ctx.Value(requestIDKey{}).(string)
	return requestID
}

func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	httpapi.Handler(s.config.Log, func(w http.ResponseWriter, _ *http.Request) error {
		if e, ok := errors.AsType[*openai.Error](err); ok && e.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="modelgate admin"`)
		}
		return clientError(err)
	}).ServeHTTP(w, r)
}

// errSignedOut is the error of a command line whose session has ended.
var errSignedOut = openai.CodeInvalidAdminToken.New("Your sign-in has ended. Sign in again with: modelgate login")

// principal returns whose token a request has. An address from which too many wrong tokens came has to wait, whatever
// it sends.
func (s *server) principal(r *http.Request) (Principal, error) {
	address := addressOf(r)
	if wait := s.guesses.wait(address); wait > 0 {
		return Principal{}, openai.CodeTooManyFailedAttempts.New("Your address sent too many wrong tokens. Wait before you try again.").After(wait)
	}
	token, given := auth.FromHeader(r.Header.Get("Authorization"))
	// Hashes have one length, so that the time taken says nothing about the token's.
	sum := sha256.Sum256([]byte(token))
	if given && !s.config.Token.IsZero() && subtle.ConstantTimeCompare(sum[:], s.root[:]) == 1 {
		return Principal{Name: nameRoot, Role: "owner", Scopes: []Scope{Everything}, Address: address}, nil
	}
	if given {
		p, err := s.ofBearer(r, token)
		if err == nil || !errors.Is(err, configstore.ErrNotFound) {
			p.Address = address
			return p, err
		}
		if s.guesses.failed(address) {
			s.config.Log.Warn("too many wrong tokens from one address, which now has to wait", zap.String("address", address))
		}
		if strings.HasPrefix(token, adminapi.SessionPrefix) {
			return Principal{}, errSignedOut
		}
	}
	return Principal{}, openai.CodeInvalidAdminToken.New("Send an admin token in an Authorization header using Bearer auth. One is in the file admin-token of the gateway's data directory.")
}

// ofBearer returns the principal of a token, or of the session of a command line. The error is ErrNotFound where there
// is none, or not any more.
func (s *server) ofBearer(r *http.Request, token string) (Principal, error) {
	if s.config.Terminals == nil || !strings.HasPrefix(token, adminapi.SessionPrefix) {
		return s.ofToken(r.Context(), token)
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	account, err := s.config.Terminals(ctx, token)
	if err != nil {
		return Principal{}, err
	}
	if account == nil {
		return Principal{}, configstore.ErrNotFound
	}
	return PrincipalOfAccount(account, r.Header.Get(adminapi.HeaderTenant), ""), nil
}

// ofToken returns the principal of a token. The error is ErrNotFound where there is no such token, or not any more.
func (s *server) ofToken(ctx context.Context, token string) (Principal, error) {
	name, _, ok := strings.Cut(strings.TrimPrefix(token, tokenPrefix), ".")
	if !ok || !strings.HasPrefix(token, tokenPrefix) || !id.Valid(tokenIDPrefix, name) {
		return Principal{}, configstore.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	entry, err := s.config.Store.Get(ctx, configv1.KindOf((*configv1.AdminToken)(nil)), name)
	if err != nil {
		return Principal{}, err
	}
	stored, ok := entry.Object.(*configv1.AdminToken)
	hash := s.config.Hasher.Hash(token)
	expired := ok && stored.GetExpiresAt() != nil && !stored.GetExpiresAt().AsTime().After(time.Now())
	if !ok || expired || subtle.ConstantTimeCompare(hash[:], stored.GetHash()) != 1 {
		return Principal{}, configstore.ErrNotFound
	}
	p := Principal{Name: name, Role: roleToken, Tenant: Tenant{stored.GetOrganization(), stored.GetProject()},
		Provider: stored.GetIdentityProvider(), Maker: stored.GetOwner()}
	for _, scope := range stored.GetScopes() {
		p.Scopes = append(p.Scopes, Scope(scope))
	}
	return s.asMaker(ctx, p)
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
