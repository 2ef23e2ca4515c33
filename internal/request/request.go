package request

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
)

// A Request is a client's request in its present state: a policy may have chosen its model, and guardrails may
// have masked its body. The request of a Route or of a session has no body.
type Request struct {
	inbound.Request
	Body  []byte
	Given *openai.Members // the members of the client's own body; nil: it is a form, or there is none
	Size  int             // of that body, in bytes
}

// UserOf returns the user that a request names, in any dialect: "user", or else "safety_identifier", which replaced it
// in OpenAI's, or else "user_id" of "metadata". Policies, limits and the ledger all mean this one.
func UserOf(r *inbound.Request) string {
	if form, ok := r.Encoder.(interface{ Field(string) string }); ok && r.Sent == nil {
		return form.Field("user")
	}
	for _, name := range [...]string{"user", "safety_identifier"} {
		if v := gjson.ParseBytes(r.Sent.Get(name)); v.Type == gjson.String && v.Str != "" {
			return v.Str
		}
	}
	if v := gjson.GetBytes(r.Sent.Get("metadata"), "user_id"); v.Type == gjson.String {
		return v.Str
	}
	return ""
}
