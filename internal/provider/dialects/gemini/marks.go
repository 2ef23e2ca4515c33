package gemini

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/private"
)

var signatureNames = [...]string{"thoughtSignature", "thought_signature"}

// withMarks returns an answer whose signatures say that they are the vendor's.
func withMarks(answer []byte, vendor string) []byte {
	if !bytes.Contains(answer, []byte(signatureNames[0])) {
		return answer
	}
	mark := private.Mark(vendor)
	return resigned(answer, "candidates", "content.parts", func(_ gjson.Result, signature string) string {
		return mark + signature
	})
}

// withoutMarks returns a request with the vendor's own signatures as it made them. It gets no other's: a call that
// it must be signed says that it is not, and a text needs none.
func withoutMarks(body []byte, vendor string) []byte {
	if !private.MayBeMarked(body) {
		return body
	}
	return resigned(body, "contents", "parts", func(part gjson.Result, signature string) string {
		plain, own := private.Unmarked(signature, vendor)
		switch {
		case own:
			return plain
		case part.Get("functionCall").Exists(), part.Get("function_call").Exists():
			return private.Unsigned
		}
		return ""
	})
}

// resigned returns a body with other signatures of the parts at a path in each element of a list.
func resigned(body []byte, list, path string, change func(part gjson.Result, signature string) string) []byte {
	var out []byte
	from := 0
	gjson.GetBytes(body, list).ForEach(func(_, element gjson.Result) bool {
		element.Get(path).ForEach(func(_, part gjson.Result) bool {
			for _, name := range signatureNames {
				v := part.Get(name)
				if v.Type != gjson.String || v.Str == "" {
					continue
				}
				out = append(out, body[from:v.Index]...)
				out, from = openai.AppendString(out, change(part, v.Str)), v.Index+len(v.Raw)
			}
			return true
		})
		return true
	})
	return append(out, body[from:]...)
}
