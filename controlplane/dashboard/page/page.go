// Package page is shared by the pages of the dashboard: the visitor, the admin API as that person, the templates and
// the errors. Each folder of sections has the pages of one subject. It imports this package, never another section.
//
// A page that hides a button protects nothing. The API decides what an account may do. The pages only hide what the
// API would refuse.
package page

import (
	"context"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// A Handler answers a path. It returns an error before it has written anything.
type Handler func(*Visit, http.ResponseWriter, *http.Request) error

// A Route is a path, and the scope that a person needs for it. Without a scope, everybody who is signed in may see it.
type Route struct {
	Pattern string
	Scope   authz.Scope
	Handler Handler
}

// Get returns the route of a page that shows something.
func Get(path string, scope authz.Scope, h Handler) Route { return Route{"GET " + path, scope, h} }

// Post returns the route of a form that changes something.
func Post(path string, scope authz.Scope, h Handler) Route { return Route{"POST " + path, scope, h} }

// Serve answers with the page if the person has the scope.
func (r Route) Serve(v *Visit, w http.ResponseWriter, in *http.Request) error {
	if r.Scope != "" && !v.Principal.May(r.Scope) {
		return ErrNotAllowed
	}
	return r.Handler(v, w, in)
}

// A Section is the pages of one subject.
type Section struct {
	// Place orders the lines of a group of the navigation. Each section has its own.
	Place int
	// Lines are its lines of the navigation.
	Lines  []Line
	Routes []Route
	// Templates are files at the top level. NAME.html is what [Visit.Render] calls NAME, and shared.html is parsed with
	// each of them.
	Templates fs.FS
	// Functions are the section's own functions of templates.
	Functions template.FuncMap
	// Notices are the texts for what [Visit.GoTo] calls done, beside those that all sections have.
	Notices map[string]string
	// Leaving is called before a person signs out. Optional.
	Leaving func(context.Context, *Visit)
}

// A Visit is one request of a person. It is used by one goroutine.
type Visit struct {
	Principal authz.Principal
	Account   *configv1.Account // nil: not signed in
	API       *adminapi.Client  // nil: not signed in
	SessionID string            // empty: the browser has none
	FormToken string            // what forms must hold
	Theme     string            // light, dark, or empty: as the system has it
	Pending   bool              // a change is not in force everywhere yet
	// Range is the part of an address that leads to the same time on another page.
	Range template.URL

	site    *Site
	request *http.Request
	refs    map[[2]string]Ref // by kind and name, as far as they were looked at
	names   func(string) string
	changed string // the object that was changed, as kind and name
}

// Now returns the time.
func (v *Visit) Now() time.Time { return v.site.config.Now() }

// Pass streams the admin API's answer to a request of this person, so that it is never whole in memory.
func (v *Visit) Pass(w http.ResponseWriter, r *http.Request) {
	v.site.config.API.ServeHTTP(w, r.WithContext(authz.WithPrincipal(r.Context(), v.Principal)))
}

// A Config is what all pages work with. Every field is required.
type Config struct {
	// API is the handler of the admin API.
	API http.Handler
	// Static returns the address of a static file.
	Static func(name string) string
	Log    *zap.Logger
	Now    func() time.Time
}

// A Site is all sections. It is safe for concurrent use.
type Site struct {
	config    Config
	sections  []Section
	routes    []Route
	templates map[string]*template.Template
	notices   map[string]string
}

// NewSite returns the site of sections, in the order of the navigation. It panics if a template is broken, which every
// test finds.
func NewSite(c Config, sections []Section) *Site {
	s := &Site{config: c, sections: sections, notices: commonNotices()}
	for _, section := range sections {
		s.routes = append(s.routes, section.Routes...)
		for done, text := range section.Notices {
			s.notices[done] = text
		}
	}
	s.templates = parse(sections, c.Static)
	return s
}

// Visit returns the visit of a person who is not signed in.
func (s *Site) Visit(r *http.Request, theme string) *Visit {
	return &Visit{site: s, request: r, Theme: theme, refs: map[[2]string]Ref{}}
}

// Leave has all sections forget a person who signs out.
func (v *Visit) Leave(ctx context.Context) {
	for _, s := range v.site.sections {
		if s.Leaving != nil {
			s.Leaving(ctx, v)
		}
	}
}

// A Gateway returns where the gateway is, without /v1, and what reaches it. The URL is empty while the gateway is not
// known.
type Gateway func() (baseURL string, transport http.RoundTripper)

// NoGateway stands for the gateway's URL while it is not known.
const NoGateway = "https://gateway.example"

// Routes returns the routes of all sections. They are not to be changed.
func (s *Site) Routes() []Route { return s.routes }
