// Package hold keeps the beginning of a streamed answer back until the answer says something, so that an answer that fails
// before it does can still have a status.
//
// What a newcomer gets wrong: that a chunk was written does not mean that anything was said. Vendors announce the role, and
// keep connections alive with comments, before they know whether there will be an answer.
package hold

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/sse"
)

// most bounds what a vendor can have kept back, in bytes.
const most = 64 << 10

// A Gate is what the events of one streamed answer in OpenAI's dialect pass. Its zero value is closed.
type Gate struct {
	kept []byte
	open bool
}

// Pass takes whole events and returns what may go out now: nothing, until one of them says something. It keeps no reference
// to events.
func (g *Gate) Pass(events []byte) []byte {
	if g.open || len(events) == 0 {
		return events
	}
	if !speaks(events) && len(g.kept)+len(events) <= most {
		g.kept = append(g.kept, events...)
		return nil
	}
	return append(g.Open(), events...)
}

// Open lets everything pass from now on, and returns what was kept back.
func (g *Gate) Open() []byte {
	kept := g.kept
	g.kept, g.open = nil, true
	return kept
}

// IsOpen reports whether something may have gone out.
func (g *Gate) IsOpen() bool { return g.open }

// speaks reports whether any of the events says something, also that the answer is complete. What cannot be read does.
func speaks(events []byte) bool {
	for data := range sse.Data(events) {
		if chunkSpeaks(data) {
			return true
		}
	}
	return false
}

// chunkSpeaks reports whether a chunk has more than a role to tell.
func chunkSpeaks(data []byte) bool {
	chunk := gjson.ParseBytes(data)
	if !chunk.IsObject() {
		return len(bytes.TrimSpace(data)) > 0
	}
	says := false
	chunk.Get("choices").ForEach(func(_, choice gjson.Result) bool {
		choice.ForEach(func(name, value gjson.Result) bool {
			switch name.Str {
			case "index":
			case "delta":
				value.ForEach(func(name, value gjson.Result) bool {
					says = name.Str != "role" && !empty(value)
					return !says
				})
			case "content_filter_results": // of the request so far
			default:
				says = !empty(value)
			}
			return !says
		})
		return !says
	})
	return says
}

// empty reports whether a member says as much as if it were not there.
func empty(v gjson.Result) bool {
	switch v.Raw {
	case "null", `""`, "[]", "{}", "false":
		return true
	}
	return false
}
