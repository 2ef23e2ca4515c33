// Package scim serves SCIM 2.0 (RFC 7643, RFC 7644) to the clients of identity providers, such as Okta and Entra ID,
// which make, change and delete accounts and groups. It knows the protocol, and which objects belong to a provider.
// The admin API decides what may be stored, and writes it.
//
// Config.Write may decide several times. The function that it gets must depend on nothing but the objects, and must
// clone those that it changes.
package scim

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Path begins the paths of SCIM.
const Path = "/scim/v2/"

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// A Change has the objects to store and to delete, together.
type Change struct{ Put, Delete []configv1.Object }

// Config is what SCIM works with. Every field is required.
type Config struct {
	// Admit returns the context of a request and the IdentityProvider whose client sent it.
	Admit func(w http.ResponseWriter, r *http.Request) (context.Context, string, error)
	// Read returns all IdentityProviders, IdentityGroups and Accounts. They are not modified.
	Read func(context.Context) ([]configv1.Object, error)
	// Write decides with the objects as they are, and carries it out only if nothing changes meanwhile. Otherwise it
	// decides again.
	Write func(ctx context.Context, decide func([]configv1.Object) (Change, error)) error
	Log   *zap.Logger
}

type server struct{ Config }

// A call is a request of a provider's client.
type call struct {
	*http.Request
	server   *server
	provider string
	body     attributes // of a POST, PUT or PATCH
}

// An answer is the result of a call. Without a body it is a 204.
type answer struct {
	status   int
	body     any
	location string
}

type handler func(*call) (answer, error)

// New returns the handler of every path below [Path].
func New(c Config) http.Handler {
	s := &server{c}
	mux := http.NewServeMux()
	for path, methods := range map[string]map[string]handler{
		"ServiceProviderConfig": {"GET": discover("ServiceProviderConfig")},
		"ResourceTypes":         {"GET": discover("ResourceTypes")},
		"ResourceTypes/{id}":    {"GET": discover("ResourceTypes")},
		"Schemas":               {"GET": discover("Schemas")},
		"Schemas/{id}":          {"GET": discover("Schemas")},
		"Users":                 {"GET": list((*directory).users), "POST": createUser},
		"Users/{id}": {"GET": get((*directory).users), "PUT": replaceUser, "PATCH": patchUser,
			"DELETE": deleteUser},
		"Groups": {"GET": list((*directory).groupList), "POST": createGroup},
		"Groups/{id}": {"GET": get((*directory).groupList), "PUT": replaceGroup, "PATCH": patchGroup,
			"DELETE": deleteGroup},
		".search": {"POST": notImplemented},
		"Me":      {"GET": notImplemented},
		"":        {}, // any other
	} {
		mux.HandleFunc(Path+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, methods) })
	}
	return mux
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, methods map[string]handler) {
	a, err := s.answer(w, r, methods)
	if err != nil {
		s.fail(w, err)
		return
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.write(w, a.status, a.body)
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, methods map[string]handler) (answer, error) {
	ctx, provider, err := s.Admit(w, r)
	if err != nil {
		return answer{}, err
	}
	c := &call{Request: r.WithContext(ctx), server: s, provider: provider}
	handle := methods[r.Method]
	switch {
	case len(methods) == 0:
		return answer{}, &Error{Status: http.StatusNotFound, Detail: "There is no such endpoint."}
	case handle == nil:
		return answer{}, &Error{Status: http.StatusMethodNotAllowed, Detail: "The endpoint does not have this method."}
	case r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		text, err := httpapi.ReadBody(w, r, maxBody)
		if err != nil {
			return answer{}, err
		}
		if c.body, err = parse(text); err != nil {
			return answer{}, err
		}
	}
	return handle(c)
}

// notImplemented is of endpoints of the RFC that clients may do without.
func notImplemented(*call) (answer, error) {
	return answer{}, &Error{Status: http.StatusNotImplemented, Detail: "The gateway does not have this part of SCIM."}
}

// read returns what the client may see.
func (c *call) read() (*directory, error) {
	objects, err := c.server.Read(c.Context())
	if err != nil {
		return nil, err
	}
	return newDirectory(c.provider, objects)
}

// write carries out a function's changes to the objects that the client may see.
func (c *call) write(decide func(*directory) (Change, error)) error {
	return c.server.Write(c.Context(), func(objects []configv1.Object) (Change, error) {
		d, err := newDirectory(c.provider, objects)
		if err != nil {
			return Change{}, err
		}
		return decide(d)
	})
}

// An Error is an error for the client (RFC 7644, section 3.12).
type Error struct {
	Status int
	Type   string // of those in table 9 of the RFC, or empty
	Detail string
}

// Error implements error.
func (e *Error) Error() string { return strconv.Itoa(e.Status) + " " + e.Type + ": " + e.Detail }

func bad(kind, detail string) error {
	return &Error{Status: http.StatusBadRequest, Type: kind, Detail: detail}
}

func taken(detail string) error {
	return &Error{Status: http.StatusConflict, Type: "uniqueness", Detail: detail}
}

func notFound(id string) error {
	return &Error{Status: http.StatusNotFound, Detail: "There is no resource with the id " + strconv.Quote(id) + "."}
}

// fail answers with an error. Those of the gateway itself are logged.
func (s *server) fail(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*Error](err)
	if known, isKnown := errors.AsType[*openai.Error](err); !ok && isKnown {
		e = &Error{Status: known.Status, Detail: known.Message}
		if known.Status == http.StatusBadRequest {
			e.Type = "invalidValue"
		}
		if after := known.Header().Get("Retry-After"); after != "" {
			w.Header().Set("Retry-After", after)
		}
	} else if !ok {
		e = &Error{Status: http.StatusInternalServerError, Detail: "The gateway had an error. Its log says more."}
	}
	if e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented {
		s.Log.Error("scim: a request failed", zap.Error(err))
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="modelgate scim"`)
	}
	s.write(w, e.Status, struct {
		Schemas []string `json:"schemas"`
		Status  string   `json:"status"`
		Type    string   `json:"scimType,omitempty"`
		Detail  string   `json:"detail"`
	}{[]string{"urn:ietf:params:scim:api:messages:2.0:Error"}, strconv.Itoa(e.Status), e.Type, e.Detail})
}

func (s *server) write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		s.Log.Error("scim: an answer cannot be written", zap.Error(err))
		status, text = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/scim+json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client has gone away; there is nobody to tell
}
