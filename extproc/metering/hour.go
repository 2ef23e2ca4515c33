package metering

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// AsksHourCache reports whether a request asks the vendor to cache a part of it for an hour or more, which costs more
// than minutes: {"cache_control":{"type":"ephemeral","ttl":"1h"}}, at any place, or OpenAI's
// {"prompt_cache_options":{"ttl":"12h"}}.
func AsksHourCache(body []byte) bool {
	// Clients escape letters or digits only to hide them.
	if !hasHours(body) && !bytes.Contains(body, []byte(`\u0031`)) &&
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
		if ttl && isHours(said) {
			return true
		}
		ttl = said == "ttl"
	}
}

// hasHours reports whether there is a string that ends like a number of hours.
func hasHours(body []byte) bool {
	for {
		i := bytes.Index(body, []byte(`h"`))
		switch {
		case i < 0:
			return false
		case i > 0 && body[i-1] >= '0' && body[i-1] <= '9':
			return true
		}
		body = body[i+2:]
	}
}

func isHours(ttl string) bool {
	n, ok := strings.CutSuffix(ttl, "h")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
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
