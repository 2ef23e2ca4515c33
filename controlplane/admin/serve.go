package admin

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// Bounds of how slowly a client may send a request and take its answer.
const (
	readTimeout  = 30 * time.Second
	writeTimeout = 90 * time.Second
)

// limited bounds the time of a connection and keeps answers out of caches.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control, now := http.NewResponseController(w), time.Now()
		// Not where it is called in process: there is no connection.
		_ = control.SetReadDeadline(now.Add(readTimeout))
		_ = control.SetWriteDeadline(now.Add(writeTimeout))
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
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

// refused returns the patterns of methods that paths do not have, though the pattern of any object may match them, and
// which methods they have.
func refused(routes []route) map[string]string {
	const ofAnyKind = "/admin/v1/{kind}"
	methods := map[string][]string{}
	for _, r := range routes {
		method, path, _ := strings.Cut(r.pattern, " ")
		methods[path] = append(methods[path], method)
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
