package metering

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// AsksHourCache reports whether a request asks the vendor to cache a part of it for an hour or more, which costs more
// than minutes: {"cache_control":{"type":"ephemeral","ttl":"1h"}}, at any place, or OpenAI's
// {"prompt_cache_options":{"ttl":"12h"}}.
func AsksHourCache(body []byte) bool {
	if !bytes.Contains(body, []byte(`"ttl"`)) && !hasEscaped(body, "74", "6c", "6C") {
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

// hasEscaped reports whether there is an escape of a letter, given as the end of its code. Clients escape letters only
// to hide them.
func hasEscaped(body []byte, ends ...string) bool {
	for {
		_, after, found := bytes.Cut(body, []byte(`\u00`))
		if !found || len(after) < 2 {
			return false
		}
		if slices.Contains(ends, string(after[:2])) {
			return true
		}
		body = after
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
