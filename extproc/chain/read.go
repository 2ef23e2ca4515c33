package chain

import (
	"context"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/extproc/passages/jobs"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/telemetry"
)

const contentTypeForm = "multipart/form-data"

// await waits for the body of a request, and removes headers that the provider must not get.
func (x *Chain) await(ctx context.Context, op *inbound.Operation, end bool) call.Reply {
	c := x.c
	c.Operation, c.Record.Operation = op, op.Name
	if e, details := x.readHead(op, end); e != nil {
		return c.Reject(e, details)
	}
	c.Record.ID = c.Env.NewID()
	for _, s := range [...]stage{onEntry, onBody} {
		if reply := x.run(ctx, s); reply != nil {
			return *reply
		}
	}
	x.answer.Account.WantsCost = c.Headers.Get(answer.HeaderTellCost) == "true"
	if len(c.Config.Caches) > 0 {
		c.CacheControl = c.Headers.Get("cache-control")
	}
	reply := c.Begun(call.Reply{ResponseBody: call.Streamed})
	if op.Streams || c.Env.Again != nil {
		c.Duplex, reply.ResponseBody = true, call.Duplex
	}
	reply.Remove = c.Removed[:0]
	for i := range c.Headers {
		if name := c.Headers[i].Name; name[0] != ':' && !headers.ToProvider(name) {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// readHead reads the headers of a request that has a body. It returns the error of one whose body would not be read,
// and the details for Envoy's log.
func (x *Chain) readHead(op *inbound.Operation, end bool) (e *openai.Error, details string) {
	c, h := x.c, x.c.Headers
	if method := c.Record.Method; method != http.MethodPost {
		return call.WrongMethod(method, c.Record.Path, http.MethodPost), "mg_method"
	}
	c.Head = inbound.Head{Path: c.Record.Path, ContentType: h.Get("content-type"), Betas: h.Get("anthropic-beta"),
		Carrier: c.Config.Directory.Carriers.For(c.Key.Organization, c.Key.Name)}
	media := call.MediaType(c.Head.ContentType)
	if media != "" && media != answer.TypeJSON && (!op.AcceptsForms || media != contentTypeForm) {
		accepted := []string{answer.TypeJSON}
		if op.AcceptsForms {
			accepted = append(accepted, contentTypeForm)
		}
		return openai.UnsupportedContentType(telemetry.Clip(c.Head.ContentType), accepted...), "mg_content_type"
	}
	switch e := h.Get("content-encoding"); strings.ToLower(e) {
	case "", "identity":
	case "gzip":
		x.gzip = true
	default:
		return openai.UnsupportedContentEncoding(telemetry.Clip(e), "as it is, or with gzip"), "mg_content_encoding"
	}
	if end {
		return openai.NoBody(" with " + op.Required), "mg_no_body"
	}
	return nil, ""
}

// read reads the body of a request. It reports whether the reply is complete: the body cannot be read, or the job
// service gets it.
func (x *Chain) read(ctx context.Context, body []byte) (reply call.Reply, done bool) {
	c := x.c
	if x.gzip {
		plain, e := room.Gunzip(c, body)
		if e != nil {
			return *x.answer.Account.RejectBody(ctx, e, "mg_bad_gzip"), true
		}
		body = plain
	}
	parsed, err := c.Operation.Parse(c.Head, body)
	if err != nil {
		e := dialects.Misdirected(c.Operation, body, pipeline.ClientError(err))
		return *x.answer.Account.RejectBody(ctx, e, "mg_bad_request"), true
	}
	c.Request = request.Request{Request: parsed, Body: body, Given: parsed.Sent, Size: len(body)}
	r := &c.Request
	if s := x.stateOf(); s != inbound.Stateless {
		p := jobs.New(c, x.answer)
		x.passage = p
		return p.SendRead(ctx, s, x.gzip), true
	}
	c.WantsStream, c.IncludeUsage, c.Echo = r.Stream, r.IncludeUsage, r.Echo
	c.Record.Stream = r.Stream
	x.sends = &x.Planned
	if refused := x.resolve(ctx, r.Model); refused != nil {
		return *refused, true
	}
	return call.Reply{}, false
}

// resolve finds the model that a request asks for.
func (x *Chain) resolve(ctx context.Context, asked string) *call.Reply {
	c := x.c
	model, err := c.Config.ResolveAt(c.Key, asked, c.AtHost)
	if c.Request.Model = model; err == nil {
		return nil
	}
	c.Record.Model = telemetry.Clip(asked)
	if c.Record.RefusedBy = c.Config.Withholder(c.Key, asked); c.Record.RefusedBy != "" { // it exists
		c.Record.Label = c.Config.Label(asked)
	}
	return x.answer.Account.RejectBody(ctx, pipeline.ClientError(err), "mg_no_model")
}

// stateOf returns what a request wants of stored state, as far as there may be any.
func (x *Chain) stateOf() inbound.State {
	c := x.c
	if c.Operation.StateOf == nil || !c.Config.StoresResponses || c.Internal {
		return inbound.Stateless
	}
	return c.Operation.StateOf(c.Request.Sent)
}
