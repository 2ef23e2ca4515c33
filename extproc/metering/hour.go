package metering

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// KeepsHour reports whether a request has the vendor keep a part of it for an hour, which costs more than five
// minutes: {"cache_control":{"type":"ephemeral","ttl":"1h"}}, wherever that is.
func KeepsHour(body []byte) bool {
	// Nobody escapes a letter or a digit but who wants that it is not found.
	if !bytes.Contains(body, []byte(`"1h"`)) && !bytes.Contains(body, []byte(`\u0031`)) &&
		!bytes.Contains(body, []byte(`\u0068`)) {
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for ttl := false; ; {
		token, err := dec.ReadToken()
		if err != nil {
			return !errors.Is(err, io.EOF) // what cannot be read may be so
		}
		said := ""
		if token.Kind() == '"' {
			said = token.String()
		}
		if ttl && said == "1h" {
			return true
		}
		ttl = said == "ttl"
	}
}

// Keep completes a usage by what of the prompt was written to a cache for an hour, where the request asks for that and
// the vendor does not say: all that was written, or of a prompt that nothing is told of, all of it. What is not known
// is the dearer.
func (d *Demand) Keep(u *openai.Usage, counted bool) {
	if !d.Hour || u.WritesSplit {
		return
	}
	if counted {
		u.CacheWriteTokens = u.PromptTokens
	}
	u.HourWriteTokens = u.CacheWriteTokens
}
