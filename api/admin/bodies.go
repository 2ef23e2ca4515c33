package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Bodies are the kept bodies of an exchange.
type Bodies struct {
	ID           string    `json:"id"`
	Start        time.Time `json:"start"`
	Key          string    `json:"key"`
	Organization string    `json:"organization,omitempty"`
	Project      string    `json:"project,omitempty"`
	Expires      time.Time `json:"expires_at"`
	Request      Body      `json:"request"`
	Answer       Body      `json:"answer"`
}

// A Body is the kept part of a request or an answer.
type Body struct {
	ContentType string `json:"content_type,omitempty"`
	// Bytes is the size of the body as it was.
	Bytes int64 `json:"bytes"`
	// Text is redacted. For a stream it is a JSON document, joined from the pieces in its events.
	Text string `json:"text"`
	// Cut means that the text is only the beginning.
	Cut bool `json:"cut,omitempty"`
	// Omitted is why there is no text.
	Omitted string `json:"omitted,omitempty"`
	// Redacted is how many pieces of text were replaced.
	Redacted int64 `json:"redacted"`
}

// DeletedBodies says of how many exchanges bodies were deleted.
type DeletedBodies struct {
	Deleted int64 `json:"deleted"`
}

// Bodies returns the kept bodies of an exchange. The audit log then says who has seen them.
func (c RequestCalls) Bodies(ctx context.Context, id string) (Bodies, error) {
	return get[Bodies](ctx, c.caller, "requests/"+url.PathEscape(id)+"/bodies")
}

// DeleteBodies deletes the kept bodies of an exchange.
func (c RequestCalls) DeleteBodies(ctx context.Context, id string) (out DeletedBodies, err error) {
	err = c.caller.call(ctx, request{method: http.MethodDelete, path: "requests/" + url.PathEscape(id) + "/bodies"}, &out)
	return out, err
}

// DeleteBodiesOf deletes all kept bodies of an owner. The filters are key, organization and project.
func (c RequestCalls) DeleteBodiesOf(ctx context.Context, o ListOptions) (out DeletedBodies, err error) {
	err = c.caller.call(ctx, request{method: http.MethodDelete, path: "bodies" + o.query()}, &out)
	return out, err
}
