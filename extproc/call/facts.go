package call

import (
	"cel.dev/cel-go/cel"

	"github.com/modelgate/modelgate/internal/policy"
)

// Facts returns what expressions can use. The request is read once for all of them, but for the model, because a
// policy may choose one.
func (c *Call) Facts() *policy.Facts {
	r := &c.Request
	if c.facts != nil {
		c.facts.Model = r.Model
		return c.facts
	}
	c.facts = &policy.Facts{Subject: c.Record.Subject, Model: r.Model, Operation: c.Record.Operation,
		Stream: r.Stream, Tools: []string{}, Now: c.Record.Start}
	if r.Body != nil {
		c.facts.Read(&r.Request, r.Size, c.Offers())
	}
	return c.facts
}

// HasFacts reports whether an expression has asked for the facts.
func (c *Call) HasFacts() bool { return c.facts != nil }

// Fits reports whether an expression is true for the request, or fails.
func (c *Call) Fits(when cel.Program) bool { return c.Facts().Fits(when) }

// RefusedBy notes the rule that refuses the request to a model.
func (c *Call) RefusedBy(rule, model string) {
	c.Record.Model, c.Record.Label, c.Record.RefusedBy = model, c.Config.Label(model), rule
}
