package exchange

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/secret"
)

// A scrubber takes secrets out of a body that comes in pieces, cut anywhere: where the cuts fall never changes what
// comes out. It keeps back no more than the longest secret.
type scrubber struct {
	secrets [][]byte
	longest int // in bytes
	kept    []byte
}

// newScrubber returns a scrubber of a provider's secrets, as they are and as they are written in URLs, JSON and
// headers.
func newScrubber(secrets []secret.Value) *scrubber {
	s := &scrubber{}
	for _, v := range secrets {
		text := v.Reveal()
		for _, form := range []string{
			text, url.QueryEscape(text), url.PathEscape(text), strings.ReplaceAll(text, "/", `\/`),
			base64.StdEncoding.EncodeToString([]byte(text)), base64.StdEncoding.EncodeToString([]byte(text + ":")),
			base64.StdEncoding.EncodeToString([]byte(":" + text)),
		} {
			if !slices.ContainsFunc(s.secrets, func(known []byte) bool { return string(known) == form }) {
				s.secrets = append(s.secrets, []byte(form))
				s.longest = max(s.longest, len(form))
			}
		}
	}
	return s
}

// pass returns what of the body goes on now.
func (s *scrubber) pass(piece []byte, end bool) []byte {
	text := slices.Concat(s.kept, piece)
	next := make([]int, len(s.secrets)) // where each secret is found next
	find := func(i, from int) {
		if next[i] = bytes.Index(text[from:], s.secrets[i]); next[i] < 0 {
			next[i] = len(text)
		} else {
			next[i] += from
		}
	}
	for i := range next {
		find(i, 0)
	}
	var out []byte
	from := 0
	for {
		at, long := len(text), 0
		for i, n := range next {
			if n < at || n == at && n < len(text) && len(s.secrets[i]) > long {
				at, long = n, len(s.secrets[i])
			}
		}
		// What looks like the beginning of a longer one waits for the rest.
		if sure := len(text) - s.longest + 1; !end && at >= sure {
			at = max(from, min(at, sure))
			s.kept = bytes.Clone(text[at:])
			return append(out, text[from:at]...)
		}
		out = append(out, text[from:at]...)
		if at == len(text) {
			s.kept = nil
			return out
		}
		out, from = append(out, secret.Redacted...), at+long
		for i := range next {
			if next[i] < from {
				find(i, from)
			}
		}
	}
}

// has reports whether a text holds a secret.
func (s *scrubber) has(text string) bool {
	return slices.ContainsFunc(s.secrets, func(form []byte) bool { return strings.Contains(text, string(form)) })
}

// scrubRoute has an answer of a Route that is no success pass without the credential, which some vendors repeat:
// neither in a header nor in its body, which goes on as it comes, however large it is.
func (x *Exchange) scrubRoute(h Headers, status int, reply Reply) Reply {
	p := x.config.Providers[x.record.Provider]
	if p == nil || len(p.Secrets()) == 0 {
		return reply
	}
	s := newScrubber(p.Secrets())
	for i := range h {
		if name := h[i].Name; name[0] != ':' && s.has(h[i].Value) {
			reply.Set = slices.DeleteFunc(reply.Set, func(set Header) bool { return s.has(set.Value) })
			if reply.Set.Get(name) == "" {
				reply.Remove = append(reply.Remove, name)
			}
		}
	}
	if x.state == ended {
		return reply // it has no body
	}
	if h.Get("content-encoding") != "" && h.Get("content-encoding") != "identity" { // though none was asked for
		e := &openai.Error{Status: status, Type: openai.TypeServer, Code: openai.CodeUpstreamErrorEncoded,
			Message: fmt.Sprintf(
				"The provider answered with status %d, and with a body in an encoding that it was not asked for.", status)}
		x.record.Error = e
		x.finish()
		return x.immediate(status, e.Header(), x.dialect.AppendError(nil, e), "mg_encoded_error")
	}
	x.state, x.scrubs, reply.ResponseBody, reply.PassRequest = inScrubbed, s, Streamed, x.unread
	reply.Log = false // its end is shown
	reply.Remove = append(reply.Remove, "content-length")
	return reply
}

// scrubPiece takes a piece of an error's body.
func (x *Exchange) scrubPiece(piece []byte, end bool) Reply {
	out := x.scrubs.pass(piece, end)
	if end {
		x.finish()
	}
	return Reply{ReplaceBody: true, Body: out}
}

// vendorsOwn reports whether a header of a provider's answer is kept from clients where the answer passes as it is. It
// says something of the gateway's account or connection at the provider, or it is one by which clients know what the
// gateway says, and so nobody else's to set. Answers that are translated keep no header but their type and length: see
// answerKept.
func vendorsOwn(name string) bool {
	switch name {
	case "set-cookie", "alt-svc", "strict-transport-security", "server", "server-timing", "via", "openai-organization",
		"openai-project",
		"anthropic-organization-id", "x-upstream-request-id", "nel", "report-to", "clear-site-data":
		return true
	}
	return slices.ContainsFunc([]string{"x-modelgate-", "x-envoy-", "x-ratelimit-", "anthropic-ratelimit-",
		"access-control-"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// isError reports whether a status is one after which a body may repeat what was sent.
func isError(status int) bool { return status >= http.StatusMultipleChoices }
