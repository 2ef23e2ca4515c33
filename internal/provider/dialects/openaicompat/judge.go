package openaicompat

import (
	"slices"

	"github.com/modelgate/modelgate/api/openai"
)

// judge returns the client's error for a request that the vendor does not take, and names a schema without a name.
func (c *Changes) judge() error {
	d := c.dialect
	if d.Today {
		return c.object.RejectAll()
	}
	if d.AsReceived || slices.Contains(d.Own, openai.Unnamed) || !c.object.HasDeviation(openai.Unnamed) {
		return c.object.RejectDeviations(d.Own...)
	}
	c.Set("response_format", openai.NameSchema(c.object.Get("response_format")))
	return c.object.RejectDeviations(append(slices.Clone(d.Own), openai.Unnamed)...)
}
