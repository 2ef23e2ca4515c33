// Package admin serves the admin API: reading and writing the configuration, and making keys.
//
// What a newcomer gets wrong: every change of configuration goes the same way (see plan), also a single PUT: read
// everything, lay the change over it, validate the whole, and commit only if nothing else was written in the meantime.
// Nothing that makes the whole worse is stored. Credentials come in but never go out: they are sealed before they are stored, and shown as
// "[redacted]", which, applied again, means the stored one.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	maxBody        = 1 << 20
	requestTimeout = 5 * time.Second
)

// A StatusSource says why an object has no effect.
type StatusSource interface {
	// ObjectError returns why the object, or its last change, has no effect, and "" where it has. It must be safe for
	// concurrent use.
	ObjectError(kind, name string) string
}

// Config is what the API works with. Every field is required.
type Config struct {
	Store *configstore.Store
	// Sealer seals credentials before they are stored.
	Sealer *secret.Sealer
	// Hasher hashes the keys that are made.
	Hasher *auth.Hasher
	// Token is what callers authenticate with.
	Token secret.Value
	// Vendors are those that providers may be of.
	Vendors configv1.Vendors
	Status  StatusSource
	Log     *zap.Logger
}

type server struct {
	config Config
	token  [sha256.Size]byte
	turn   chan struct{} // holds one: whoever writes
}

// New returns the handler of every path below /admin/v1/.
func New(c Config) http.Handler {
	s := &server{config: c, token: sha256.Sum256([]byte(c.Token.Reveal())), turn: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	for pattern, f := range map[string]httpapi.HandlerFunc{
		"GET /admin/v1/{kind}":              s.list,
		"GET /admin/v1/{kind}/{name...}":    s.get,
		"PUT /admin/v1/{kind}/{name...}":    s.put,
		"DELETE /admin/v1/{kind}/{name...}": s.delete,
		"POST /admin/v1/apply":              s.apply,
		"POST /admin/v1/keys":               s.createKey,
	} {
		mux.Handle(pattern, httpapi.Handler(c.Log, s.guarded(f)))
	}
	return httpapi.Recover(c.Log, s.onlyWithToken(httpapi.Mux(mux)))
}

// onlyWithToken refuses whoever has no token before it says anything about paths.
func (s *server) onlyWithToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := auth.FromHeader(r.Header.Get("Authorization"))
		// Hashes have one length, so that the time taken says nothing about the token's.
		sum := sha256.Sum256([]byte(token))
		if !ok || s.config.Token.IsZero() || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="modelgate admin"`)
			httpapi.WriteError(w, &openai.Error{Status: http.StatusUnauthorized, Type: openai.TypeInvalidRequest, Code: "invalid_admin_token",
				Message: "Send the admin token in an Authorization header using Bearer auth. It is in the file admin-token of the gateway's data directory."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guarded bounds the time of a request and turns the store's errors into the client's.
func (s *server) guarded(f httpapi.HandlerFunc) httpapi.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		return clientError(f(w, r.WithContext(ctx)))
	}
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
		return openai.BadRequest(invalid[0].Field, "invalid_object", "%s", invalid.Error())
	}
	switch {
	case errors.Is(err, configstore.ErrNotFound):
		return &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "not_found", Message: err.Error()}
	case errors.Is(err, configstore.ErrConflict):
		return &openai.Error{Status: http.StatusConflict, Type: openai.TypeInvalidRequest, Code: "conflict",
			Message: "The configuration was changed by others at the same time, several times over. Try again."}
	case errors.Is(err, configstore.ErrTooLarge):
		return &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest, Code: "object_too_large", Message: err.Error()}
	}
	return httpapi.WithCause(&openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer, Code: "store_unavailable",
		Message: "The configuration store cannot be reached. Traffic goes on with the last configuration."}, err)
}

func kindOf(r *http.Request) (configv1.Kind, error) {
	for _, k := range configv1.Kinds() {
		if k.Plural == r.PathValue("kind") {
			return k, nil
		}
	}
	return configv1.Kind{}, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "unknown_kind",
		Message: "There is no such kind of object. The kinds are the paths of " + configv1.KindNames() + ", in the plural and in lower case."}
}

// objectOf returns the kind and the name that a path is about.
func objectOf(r *http.Request) (configv1.Kind, string, error) {
	kind, err := kindOf(r)
	name := r.PathValue("name")
	if err == nil && name == "" {
		err = &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Code: "unknown_url",
			Message: "The path must end with the name of the object."}
	}
	return kind, name, err
}
