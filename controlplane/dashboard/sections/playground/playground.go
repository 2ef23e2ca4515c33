// Package playground is the page from which people ask models.
//
// Nothing of a request or of its answer is kept, and the key of a session is in memory only.
package playground

import (
	"cmp"
	"embed"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
	"github.com/modelgate/modelgate/controlplane/dashboard/words"
	"github.com/modelgate/modelgate/internal/httpapi"
)

//go:embed *.html
var templates embed.FS

// A section is the pages, and the keys of those who use them.
type section struct {
	gateway page.Gateway
	keys    playKeys
}

// Section returns the page, and what it asks.
func Section(gateway page.Gateway) page.Section {
	s := &section{gateway: gateway, keys: playKeys{keys: map[string]playKey{}}}
	return page.Section{
		Place: 90,
		Lines: []page.Line{
			{Group: page.GroupModels, Path: "/playground", Name: "Playground", Scope: authz.Playground},
		},
		Routes: []page.Route{
			page.Get("/playground", authz.Playground, s.show),
			page.Post("/playground/ask/{api}", authz.Playground, s.ask),
			page.Get("/playground/cost/{id}", authz.Playground, cost),
		},
		Templates: templates,
		Leaving:   s.endPlayKey,
	}
}

// A playgroundData is what the playground shows.
type playgroundData struct {
	Models []string
	Away   bool
	Base   string // of the gateway, for examples
}

func (s *section) show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	var data playgroundData
	base, _ := s.gateway()
	data.Away, data.Base = base == "", cmp.Or(base, page.NoGateway)
	models, err := v.API.ListPage(r.Context(), configv1.KindOf((*configv1.Model)(nil)), adminapi.ListOptions{Limit: 500})
	if err != nil {
		return err
	}
	for _, item := range models.Items {
		data.Models = append(data.Models, item.Name)
	}
	providers, err := v.API.List(r.Context(), configv1.KindOf((*configv1.Provider)(nil)))
	if err != nil {
		return err
	}
	for _, item := range providers {
		p, _ := item.Object.(*configv1.Provider)
		for _, m := range p.GetModels() {
			data.Models = append(data.Models, item.Name+"/"+m)
		}
	}
	return v.Render(w, "playground", "Playground", data)
}

// playgroundPath returns the path for a model in an API that the playground uses, or "".
func playgroundPath(api, model string) string {
	switch api {
	case "chat":
		return "/v1/chat/completions"
	case "messages", "responses":
		return "/v1/" + api
	case "gemini":
		return "/v1beta/models/" + url.PathEscape(model) + ":streamGenerateContent?alt=sse"
	}
	return ""
}

// ask passes a request on to the gateway, and the answer back as it comes. It takes the key that the visitor has
// typed, or else the session's own. Nothing of the request or of the answer is kept.
func (s *section) ask(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	path := playgroundPath(r.PathValue("api"), r.URL.Query().Get("model"))
	if path == "" {
		return page.ErrNoPage
	}
	base, transport := s.gateway()
	if base == "" {
		return playgroundError(w, "The gateway is not ready yet.")
	}
	key := r.Header.Get("X-Gateway-Key")
	if key == "" {
		var err error
		if key, err = s.playKey(r.Context(), v); err != nil {
			message, ok := page.Refused(err)
			if !ok {
				message = "Try again, or enter a key of yours."
			}
			return playgroundError(w, "The gateway did not make a key for this session. "+message)
		}
	}
	// The gateway may think for long, and answer for long. The server reads on meanwhile, and would end the request where
	// that times out.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, strings.TrimRight(base, "/")+path,
		r.Body)
	if err != nil {
		return err
	}
	ask.Header.Set("Content-Type", "application/json")
	ask.Header.Set("Authorization", "Bearer "+key)
	response, err := transport.RoundTrip(ask)
	if err != nil {
		return playgroundError(w, "The gateway is unreachable.")
	}
	defer response.Body.Close()
	kind := "application/json"
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	for _, name := range []string{"X-Request-Id", "Retry-After", "X-Ratelimit-Remaining-Requests",
		"X-Ratelimit-Remaining-Tokens", "X-Modelgate-Provider", "X-Modelgate-Attempts"} {
		if value := response.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(response.StatusCode)
	flush(w, response.Body)
	return nil
}

// A playgroundCost is the cost of a request from the playground.
type playgroundCost struct {
	Known  bool   `json:"known"` // the ledger has the request
	Priced bool   `json:"priced"`
	USD    string `json:"usd"`
}

// cost tells what a request has cost, once the ledger has it.
func cost(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	part, err := v.API.Requests(r.Context(), adminapi.ListOptions{Query: r.PathValue("id"), Limit: 1})
	if _, err = page.Unavailable(err); err != nil {
		return err
	}
	var found playgroundCost
	for _, e := range part.Items {
		found = playgroundCost{Known: true, Priced: e.Priced, USD: words.Dollars(e.CostUSD)}
	}
	return httpapi.WriteJSON(w, http.StatusOK, found)
}

// flush copies a stream piece by piece, as it comes.
func flush(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return // the browser has gone away, and the request to the gateway ends with it
			}
			_ = control.Flush()
		}
		if err != nil {
			return
		}
	}
}

func playgroundError(w http.ResponseWriter, message string) error {
	e := openai.CodeGatewayUnavailable.New("%s", message).WithStatus(http.StatusBadGateway)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(e.AppendJSON(nil)) // the browser has gone away
	return nil
}
