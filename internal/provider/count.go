package provider

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A Count is a number of tokens in a vendor's JSON: a number, which may have a fraction or be in a string. Any other
// value is 0, so that no answer is lost because of its usage.
type Count int64

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *Count) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() == '"' {
		v = v[1 : len(v)-1]
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		*c = Count(openai.Count(n))
	} else if f, err := strconv.ParseFloat(string(v), 64); err == nil && f > 0 {
		*c = Count(min(f, openai.MaxTokens))
	}
	return nil
}
