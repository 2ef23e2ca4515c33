package extproc

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/routing"
)

const (
	jsonMedia = "application/json"
	formMedia = "multipart/form-data; boundary=b"
)

// answers with a body of a media type, and then breaks the connection if that is wanted.
func answers(media, body string, breaks bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, body)
		w.(http.Flusher).Flush()
		if breaks {
			panic(http.ErrAbortHandler)
		}
	}
}

// Images, sound and forms are tried again as chats are, unless the client has got a part of the answer.
func TestAttemptsAtImagesAudioAndForms(t *testing.T) {
	g := startAgain(t)
	config := g.server.config.current.Load()
	config.Models["pair"] = &configv1.Model{Name: "pair", Retry: &configv1.Retry{MaxAttempts: 3},
		Targets: []*configv1.Target{
			{Provider: "second", Model: "m"}, {Provider: "third", Model: "m", Priority: 1}}}
	form := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\npair\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--b--\r\n"
	const failure, image, sound = `{"error":{"message":"boom","type":"server_error"}}`,
		`{"created":1,"data":[{"b64_json":"aGk="}],"usage":{"input_tokens":2,"output_tokens":3,"total_tokens":5}}`, "ID3sound"
	all := func(of ...http.HandlerFunc) []http.HandlerFunc { return of }
	event := func(data string) string { return "data: " + data + "\n\n" }
	drawn := event(`{"type":"image_generation.completed","b64_json":"aGk="}`)
	for name, c := range map[string]struct {
		path, media, body string
		answers           []http.HandlerFunc // to the attempts, in their order
		says              string
	}{
		"an image that is an error": {"images/generations", jsonMedia, `{"model":"pair","prompt":"x"}`,
			all(answers(jsonMedia, failure, false), answers(jsonMedia, image, false)), image},
		"a half image, and one that breaks off": {"images/generations", jsonMedia, `{"model":"pair","prompt":"x"}`,
			all(answers(jsonMedia, image[:30], false), answers(jsonMedia, image[:30], true),
				answers(jsonMedia, image, false)), image},
		"a stream of images that fails": {"images/generations", jsonMedia, `{"model":"pair","prompt":"x","stream":true}`,
			all(answers("text/event-stream", event(failure), false), answers("text/event-stream", drawn, false)), drawn},
		"speech that is an error": {"audio/speech", jsonMedia, `{"model":"pair","input":"x","voice":"v"}`,
			all(answers(jsonMedia, failure, false), answers("audio/mpeg", sound, false)), sound},
		"speech that has begun": {"audio/speech", jsonMedia, `{"model":"pair","input":"x","voice":"v"}`,
			all(answers(jsonMedia, failure, false), answers("audio/mpeg", sound, true)), sound},
		"a transcript of a form": {"audio/transcriptions", formMedia, form,
			all(answers(jsonMedia, failure, false), answers(jsonMedia, `{"text":"fine"}`, false)), `{"text":"fine"}`},
		"a transcript in plain text": {"audio/transcriptions", formMedia, form,
			all(answers(jsonMedia, failure, false), answers("text/plain", "fine", false)), "fine"},
		"an edit of a form": {"images/edits", formMedia, form,
			all(answers(jsonMedia, failure, false), answers(jsonMedia, image, false)), image},
	} {
		t.Run(name, func(t *testing.T) {
			g.server.env.Cooldown, g.server.env.Suspects = routing.Cooldown{}, routing.Cooldown{}
			next := c.answers
			each := func(w http.ResponseWriter, r *http.Request) {
				g.mu.Lock()
				answer := answers(jsonMedia, failure, false)
				if len(next) > 0 {
					answer, next = next[0], next[1:]
				}
				g.mu.Unlock()
				answer(w, r)
			}
			g.mu.Lock()
			g.asked, g.answers = nil, map[string]http.HandlerFunc{"second": each, "third": each}
			g.mu.Unlock()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/"+c.path,
				strings.NewReader(c.body))
			require.NoError(t, err)
			r.Header = http.Header{"Authorization": {"Bearer " + g.key}, "Content-Type": {c.media}}
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			body, _ := io.ReadAll(response.Body)
			require.Equal(t, http.StatusOK, response.StatusCode, string(body))
			require.Equal(t, c.says, string(body))
			g.mu.Lock()
			defer g.mu.Unlock()
			require.Len(t, g.asked, len(c.answers))
		})
	}
}
