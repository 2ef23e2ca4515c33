package openai

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A stock client gives back of an assistant's turn what it knows: its text, and the id, name and arguments of its calls. What
// a vendor must see again besides, such as the signature of its thinking, therefore travels in the id of a tool call:
// the vendor's id, the mark, and the data, deflated, in base64url. Every codec gets ids without it.

// carriedMark separates a tool call's id from what it carries. No vendor's id has it.
const carriedMark = "~mg1."

// maxCarried bounds what an id may carry, in bytes before and after it is deflated.
const maxCarried = 256 << 10

// CarryID returns id with data, which must come back with the call. Data that is empty or too large is left out.
func CarryID(id string, data []byte) string {
	if len(data) == 0 || len(data) > maxCarried {
		return id
	}
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestSpeed) // the level is one that there is
	_, _ = z.Write(data)                         // a bytes.Buffer takes everything
	_ = z.Close()
	return id + carriedMark + base64.RawURLEncoding.EncodeToString(b.Bytes())
}

// SplitID returns what CarryID was given. Of an id that carries nothing, or nothing that can be read, data is nil.
func SplitID(carrying string) (id string, data []byte) {
	id, text, found := strings.Cut(carrying, carriedMark)
	if !found {
		return carrying, nil
	}
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return id, nil
	}
	data, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxCarried+1))
	if err != nil || len(data) > maxCarried {
		return id, nil
	}
	return id, data
}

// cutID returns the id, and the text of what it carries.
func cutID(carrying string) (id, text string) {
	id, text, _ = strings.Cut(carrying, carriedMark)
	return id, text
}

// dropCarried returns the body of a chat completion request without what the ids in it carry: the body itself where none
// does, or where it is not JSON. Any other string stays as it is, though text of the client's may look the same.
func dropCarried(body []byte) []byte {
	if !bytes.Contains(body, []byte(carriedMark)) {
		return body
	}
	var out []byte
	from := 0
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		if dec.PeekKind() != '"' {
			if _, err := dec.ReadToken(); err != nil {
				return append(out, body[from:]...)
			}
			continue
		}
		v, err := dec.ReadValue()
		if err != nil {
			return append(out, body[from:]...)
		}
		if kind, n := dec.StackIndex(dec.StackDepth()); kind == '{' && n%2 == 0 && bytes.Contains(v, []byte(carriedMark)) && isCallID(dec.StackPointer()) {
			end := int(dec.InputOffset())
			id, _ := SplitID(unquote(v))
			out, from = AppendString(append(out, body[from:end-len(v)]...), id), end
		}
	}
}

// isCallID reports whether p is the id of a tool call in a conversation.
func isCallID(p jsontext.Pointer) bool {
	var path []string
	for token := range p.Tokens() {
		path = append(path, token)
	}
	switch len(path) {
	case 3:
		return path[0] == "messages" && path[2] == "tool_call_id"
	case 5:
		return path[0] == "messages" && path[2] == "tool_calls" && path[4] == "id"
	}
	return false
}
