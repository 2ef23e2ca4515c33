package responses

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/rest"
)

const (
	// maxBody bounds the body of a request, in bytes. The gateway's own limit is lower by default.
	maxBody = 64 << 20
	maxName = 256 // of an id or a model
)

// A request is a client's request for a response.
type request struct {
	model        string
	stream       bool
	background   bool
	store        bool // stored as a response
	explicit     bool // the client has asked for that, or needs it
	previous     string
	conversation string
	input        []json.RawMessage
	include      []string
	body         []byte                    // as the client has sent it, if it is made in the background
	rest         map[string]jsontext.Value // members that pass as they are
}

// parse reads a request, as far as it is about stored state. The rest is for the gateway and the provider to check.
func parse(w http.ResponseWriter, r *http.Request) (*request, error) {
	o, body, err := rest.ReadObject(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	q := &request{store: true}
	q.model = o.Required("model", maxName)
	if v, given := o.Take("store"); given {
		q.store = o.Bool("store", v)
		q.explicit = q.store
	}
	if v, given := o.Take("background"); given {
		q.background = o.Bool("background", v)
	}
	if v, given := o.Take("stream"); given {
		q.stream = o.Bool("stream", v)
	}
	q.previous = o.Text("previous_response_id", maxName)
	q.conversation = conversationOf(o)
	if v, given := o.Take("input"); given {
		q.input = inputItems(o, v)
		checkItems(o, "input", q.input)
	}
	for i, v := range o.Array("include", maxInclude) {
		q.include = append(q.include, o.TextOf(element("include", i), v, 1, maxName))
	}
	q.check(o)
	q.explicit = q.explicit || q.background || q.conversation != ""
	q.rest = o.Rest()
	if q.background {
		q.body = body
	}
	return q, o.Err()
}

const maxInclude = 64

// check refuses what does not go together.
func (q *request) check(o *rest.Object) {
	switch {
	case q.previous != "" && q.conversation != "":
		o.Fail("previous_response_id", openai.CodeInvalidValue,
			"'previous_response_id' and 'conversation' cannot be given together: each is a conversation.")
	case q.background && !q.store:
		o.Fail("background", openai.CodeInvalidValue,
			"'background' needs a response that is stored: leave out 'store', or set it to true.")
	case len(q.input) == 0 && q.previous == "" && q.conversation == "":
		o.Missing("input")
	}
}

// conversationOf takes the id of a conversation, which is a string or an object.
func conversationOf(o *rest.Object) string {
	v, given := o.Take("conversation")
	switch {
	case !given:
		return ""
	case v.Kind() == '{':
		return o.ObjectOf("conversation", v).Required("id", maxName)
	}
	return o.TextOf("conversation", v, 1, maxName)
}

// encryptedReasoning has a provider return reasoning that it accepts again in the next turn.
const encryptedReasoning = "reasoning.encrypted_content"

// upstream returns the request that is sent to the gateway: stateless, with the whole conversation.
func (q *request) upstream(all []json.RawMessage, native, stream bool, include []string) []byte {
	with := []openai.Edit{set("model", text(q.model)), set("store", boolean(false))}
	if stream {
		with = append(with, set("stream", boolean(true)))
	}
	if len(include) > 0 {
		names := make([]json.RawMessage, len(include))
		for i, name := range include {
			names[i] = text(name)
		}
		with = append(with, set("include", array(names)))
	}
	return q.with(all, native, with...)
}

// with returns a request with some members, those that pass as they are, and the items. It is made in one buffer: the
// items may be many megabytes.
func (q *request) with(all []json.RawMessage, native bool, members ...openai.Edit) []byte {
	for _, name := range slices.Sorted(maps.Keys(q.rest)) {
		members = append(members, set(name, q.rest[name]))
	}
	size := int64(256) + items.Size(all) + int64(len(all))
	for _, m := range members {
		size += int64(len(m.Name) + len(m.Value) + len(`"":,`))
	}
	body := append(make([]byte, 0, size), '{')
	for _, m := range members {
		body = append(append(openai.AppendString(body, m.Name), ':'), m.Value...)
		body = append(body, ',')
	}
	body = append(body, `"input":[`...)
	for i, first := 0, len(body); i < len(all); i++ {
		if !sendable(all[i], native) {
			continue
		}
		if len(body) > first {
			body = append(body, ',')
		}
		body = appendSendable(body, all[i])
	}
	return append(body, "]}"...)
}

// element returns the name of an element of an array, for errors.
func element(param string, i int) string { return param + "[" + strconv.Itoa(i) + "]" }
