package dashboard

import (
	"io"
	"net/http"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// A playgroundData is what the playground shows.
type playgroundData struct {
	Models []string
	Away   bool
}

func (v *visit) playground(w http.ResponseWriter, r *http.Request) error {
	var data playgroundData
	base, _ := v.gateway()
	data.Away = base == ""
	models, err := v.api.ListPage(r.Context(), modelKind(), adminapi.ListOptions{Limit: 500})
	if err != nil {
		return err
	}
	for _, item := range models.Items {
		data.Models = append(data.Models, item.Name)
	}
	providers, err := v.api.List(r.Context(), providerKind())
	if err != nil {
		return err
	}
	for _, item := range providers {
		p, _ := item.Object.(*configv1.Provider)
		for _, m := range p.GetModels() {
			data.Models = append(data.Models, item.Name+"/"+m)
		}
	}
	return v.render(w, "playground", "Playground", data)
}

func (d *Dashboard) gateway() (string, http.RoundTripper) {
	if d.config.Gateway == nil {
		return "", nil
	}
	return d.config.Gateway()
}

// playgroundChat passes a request on to the gateway, with the key that the operator has typed, and the answer back as
// it comes. Nothing of either is kept.
func (v *visit) playgroundChat(w http.ResponseWriter, r *http.Request) error {
	base, transport := v.gateway()
	if base == "" {
		return playgroundError(w, "The gateway is not ready yet.")
	}
	// The gateway may think for long, and answer for long. The server reads on meanwhile, and would end the request where
	// that times out.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, strings.TrimRight(base, "/")+
		"/v1/chat/completions", r.Body)
	if err != nil {
		return err
	}
	ask.Header.Set("Content-Type", "application/json")
	ask.Header.Set("Authorization", "Bearer "+r.Header.Get("X-Gateway-Key"))
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
		"X-Ratelimit-Remaining-Tokens"} {
		if value := response.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(response.StatusCode)
	flush(w, response.Body)
	return nil
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
	e := &openai.Error{Status: http.StatusBadGateway, Type: openai.TypeServer, Code: openai.CodeGatewayUnavailable,
		Message: message}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(e.AppendJSON(nil)) // the browser has gone away
	return nil
}
