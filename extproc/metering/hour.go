package metering

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// AsksHourCache reports whether a request asks the vendor to cache a part of it for an hour, which costs more than
// five minutes: {"cache_control":{"type":"ephemeral","ttl":"1h"}}, at any place.
func AsksHourCache(body []byte) bool {
	// Clients escape letters or digits only to hide them.
	if !bytes.Contains(body, []byte(`"1h"`)) && !bytes.Contains(body, []byte(`\u0031`)) &&
		!bytes.Contains(body, []byte(`\u0068`)) {
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for ttl := false; ; {
		token, err := dec.ReadToken()
		if err != nil {
			return !errors.Is(err, io.EOF) // unreadable JSON may ask for it
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

// AddHourCache adds to a usage the part of the prompt that was written to a cache for an hour, if the request asks for
// it and the vendor does not report it. It is all that was written, or the whole prompt if nothing is reported:
// unknown usage is charged at the higher price.
func (d *Demand) AddHourCache(u *openai.Usage, counted bool) {
	if !d.HourCache || u.WritesSplit {
		return
	}
	if counted {
		u.CacheWriteTokens = u.PromptTokens
	}
	u.HourWriteTokens = u.CacheWriteTokens
}
