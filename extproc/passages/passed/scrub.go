package passed

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/internal/secret"
)

// A scrubber removes secrets from a body that arrives in pieces. The result does not depend on where the pieces are
// cut. It holds back no more bytes than the longest secret.
type scrubber struct {
	secrets [][]byte
	longest int // in bytes
	kept    []byte
}

// newScrubber returns a scrubber of a provider's secrets, in their plain form and as written in URLs, JSON and
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

// pass returns the bytes of the body that can be sent now.
func (s *scrubber) pass(piece []byte, end bool) []byte {
	text := slices.Concat(s.kept, piece)
	next := make([]int, len(s.secrets)) // the next position of each secret
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
		// What looks like the beginning of a longer secret waits for the rest.
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

// has reports whether a text contains a secret.
func (s *scrubber) has(text string) bool {
	return slices.ContainsFunc(s.secrets, func(form []byte) bool { return strings.Contains(text, string(form)) })
}

// scrub removes the credential from an error of a Route, because some vendors repeat it. It scrubs the headers
// and the body, which passes in pieces and may have any length.
func (p *Passage) scrub(h call.Headers, status int, reply call.Reply) call.Reply {
	of := p.c.Config.Providers[p.c.Record.Provider]
	if of == nil || len(of.Secrets()) == 0 {
		return reply
	}
	s := newScrubber(of.Secrets())
	for i := range h {
		if name := h[i].Name; name[0] != ':' && s.has(h[i].Value) {
			reply.Set = slices.DeleteFunc(reply.Set, func(set call.Header) bool { return s.has(set.Value) })
			if reply.Set.Get(name) == "" {
				reply.Remove = append(reply.Remove, name)
			}
		}
	}
	if p.c.Ended {
		return reply // it has no body
	}
	// no compression was requested
	if h.Get("content-encoding") != "" && h.Get("content-encoding") != "identity" {
		e := openai.CodeUpstreamErrorEncoded.New(
			"The provider answered with status %d, and with a body in an encoding that it was not asked for.", status)
		p.c.Record.Error = e
		p.c.Finish()
		return p.c.Immediate(status, e.Header(), p.c.ErrorBody(e), "mg_encoded_error")
	}
	p.c.Unseen, p.scrubber, reply.ResponseBody, reply.PassRequest = false, s, call.Streamed, p.unread
	reply.Log = false // its end is shown
	reply.Remove = append(reply.Remove, "content-length")
	return reply
}

// isError reports whether the body of an answer with this status may repeat the request.
func isError(status int) bool { return status >= http.StatusMultipleChoices }
