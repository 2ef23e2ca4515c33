package responses

import (
	"context"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/memory"
	"github.com/modelgate/modelgate/jobsvc/rest"
)

const (
	path          = "/v1/responses"
	typeEvents    = "text/event-stream"
	headerCost    = "X-Modelgate-Include-Cost"
	maxAnswer     = 48 << 20 // of a whole answer, as extproc has it
	maxErrorBytes = 1 << 20  // of the body of an error
)

// relay asks the gateway for a response, and passes the answer to the client and to the store.
func (s *Service) relay(w http.ResponseWriter, r *http.Request, t *turn) error {
	ctx, cancel := context.WithTimeout(traced(r), s.Limits.Answer)
	defer cancel()
	answer, err := s.Gateway.Ask(ctx, gateway.Ask{Key: t.caller.Key, Project: t.caller.Tenant.Project,
		Method: http.MethodPost, Path: path, Header: costOf(r), Body: t.ask()})
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read as far as it matters
	passHeaders(w.Header(), answer.Header)
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch {
	case answer.StatusCode != http.StatusOK:
		return pass(ctx, w, answer)
	case media == typeEvents:
		s.stream(ctx, w, answer.Body, t)
		return nil
	}
	return s.whole(ctx, w, answer, t)
}

// traced returns the context of a request, with the trace that the gateway has begun.
func traced(r *http.Request) context.Context {
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

// costOf returns the header by which a client asks what the response costs.
func costOf(r *http.Request) http.Header {
	if cost := r.Header.Get(headerCost); cost != "" {
		return http.Header{headerCost: {cost}}
	}
	return nil
}

// unreachable is the error for a request that got no answer.
func unreachable(err error) error {
	return httpapi.WithCause(openai.CodeGatewayUnavailable.New("The gateway could not ask for a response. Please retry.").After(time.Second), err)
}

// passHeaders passes the answer's headers for the client, but not its request id, which belongs to another request.
func passHeaders(to, from http.Header) {
	for name, values := range from {
		switch {
		case strings.HasPrefix(name, "X-Modelgate-"), strings.HasPrefix(name, "X-Ratelimit-"),
			name == "X-Upstream-Request-Id", name == "Retry-After", name == "Retry-After-Ms", name == "X-Should-Retry":
			to[name] = values
		}
	}
}

// answerCopies is how often an answer is in memory while it is read, stored and passed on.
const answerCopies = 3

// readAnswer reads an answer, which has more than maxAnswer bytes if it is too large.
func readAnswer(ctx context.Context, answer *http.Response) ([]byte, error) {
	body, err := memory.ReadAll(ctx, answer.Body, answer.ContentLength, maxAnswer, answerCopies, true)
	if err != nil && !memory.Refused(err) {
		return nil, unreachable(err)
	}
	return body, err
}

// pass passes an answer that is the client's already.
func pass(ctx context.Context, w http.ResponseWriter, answer *http.Response) error {
	body, err := readAnswer(ctx, answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body) // the client has left
	return nil
}

// whole stores and passes an answer that is not streamed.
func (s *Service) whole(ctx context.Context, w http.ResponseWriter, answer *http.Response, t *turn) error {
	object, err := readAnswer(ctx, answer)
	if err != nil {
		return err
	}
	if len(object) > maxAnswer || jsontext.Value(object).Kind() != '{' || !jsonwalk.Strict(object) {
		return openai.CodeUpstreamInvalidResponse.New("%s", unread.message).Final()
	}
	if err := s.settle(ctx, t, object); err != nil {
		return err
	}
	rest.WriteBody(w, t.own(object))
	return nil
}

// settle stores an answer. If that fails, and the client has not asked for it, the answer says that it is not stored.
func (s *Service) settle(ctx context.Context, t *turn, object []byte) error {
	err := s.keep(ctx, t, object)
	if err == nil || t.explicit {
		return err
	}
	s.Log.Warn("a response was not stored", zap.String("response", t.id), zap.Error(err))
	t.store = false
	return nil
}

// own returns a response object of the gateway as the client's: it has an id of its own, and says what is stored.
func (t *turn) own(object []byte) []byte {
	previous, conversation := []byte("null"), []byte("null")
	if t.previous != "" {
		previous = text(t.previous)
	}
	if t.request.conversation != "" {
		conversation = replaced(nil, set("id", text(t.request.conversation)))
	}
	return replaced(object, set("id", text(t.id)), set("background", boolean(t.background)),
		set("previous_response_id", previous), set("conversation", conversation), set("store", boolean(t.store)))
}

// statusOf returns the status of a response object that has ended.
func statusOf(object []byte) job.ResponseStatus {
	switch s := job.ResponseStatus(gjson.GetBytes(object, "status").Str); s {
	case job.ResponseIncomplete, job.ResponseFailed, job.ResponseCancelled:
		return s
	}
	return job.ResponseCompleted
}

// lost is the error for a stored document that cannot be read.
func lost(err error, what, id string) error {
	if !isMissing(err) {
		return err
	}
	return httpapi.WithCause(openai.CodeArchiveDamaged.New("The stored %s '%s' is missing or damaged in the gateway's storage.", what, id).Final(),
		err)
}
