package admin

import (
	"errors"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/id"
)

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
