package exchange

import (
	"net/http"

	"cel.dev/cel-go/cel"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// guarded is what guardrails have to do with an exchange. It is zero where none applies.
type guarded struct {
	set    *guard.Set
	masks  *guard.Masks
	answer *guard.Answer // of the answer that is written; nil: nothing is looked at
	checks []guard.Check // that checkers have to judge before the request is sent; later those of the answer
	texts  []string      // of the request, for them
	away   bool          // the answer ends because its checker is away
}

// looksAtAnswer reports whether the answer must come as events, of which the client's own texts are restored.
func (g *guarded) looksAtAnswer() bool {
	return g.set != nil && (g.set.Answers() || !g.masks.IsEmpty())
}

// hasBlocked reports whether a rule has ended the answer.
func (g *guarded) hasBlocked() bool { return g.answer != nil && g.answer.Blocked != "" }

func (x *Exchange) guardClient() guard.Client {
	return guard.Client{Key: x.key.Name, Organization: x.key.Organization, Project: x.key.Project}
}

// guardRequest has policies decide on a request and guardrails look at its texts, and returns its body and what is
// parsed of it: without what is masked.
func (x *Exchange) guardRequest(body []byte, r inbound.Request) ([]byte, inbound.Request, error) {
	model, e := x.decide(r, body)
	if e != nil {
		return nil, r, e
	}
	r.Model = model
	fits := func(when cel.Program) bool { return x.factsOf(r, body).Fits(when) }
	set := x.config.Rails.For(x.guardClient(), r.Model, fits)
	if set == nil {
		return body, r, nil
	}
	looked, err := set.Request(body)
	if err != nil {
		if set.Strict() {
			return nil, r, err
		}
		return body, r, nil
	}
	for of, n := range looked.Findings {
		x.found(of, n)
	}
	if looked.Blocked != "" {
		x.record.Model, x.record.Label = r.Model, x.config.Label(r.Model)
		x.record.RefusedBy = "guardrail " + looked.Blocked
		return nil, r, contentBlocked(looked.Blocked)
	}
	x.guarded = guarded{set: set, masks: looked.Masks}
	if len(looked.Texts) > 0 {
		x.guarded.checks, x.guarded.texts = set.Checks(configv1.GuardSide_REQUESTS), looked.Texts
	}
	if looked.Masks.IsEmpty() {
		return body, r, nil
	}
	masked, err := x.operation.Parse(x.head, looked.Body)
	masked.Model = r.Model
	return looked.Body, masked, err
}

// contentBlocked is the error of a request that a rule refuses. It does not say what was found.
func contentBlocked(rule string) *openai.Error {
	return &openai.Error{Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: openai.CodeContentBlocked,
		Message: "The guardrail '" + rule + "' does not allow the content of this request.", NoRetry: true}
}

// unguarded is the error of a request whose content no guardrail can look at; nil where none has to.
func (x *Exchange) unguarded() *openai.Error {
	if len(x.config.Rails) == 0 || !x.config.Rails.Guards(x.guardClient()) {
		return nil
	}
	return &openai.Error{Status: http.StatusBadRequest, Type: openai.TypeInvalidRequest, Code: openai.CodeNotGuarded,
		Message: "A guardrail applies to this key, and cannot look at requests to this path.", NoRetry: true}
}

// guardAnswer returns the guard of the answer that is about to be written; nil where there is nothing to do.
func (x *Exchange) guardAnswer() pipeline.Guard {
	if x.guarded.set == nil {
		return nil
	}
	g := &x.guarded
	if g.answer = guard.NewAnswer(g.set, g.masks, x.wantsStream, x.checkAnswer); g.answer == nil {
		return nil
	}
	if g.answer.MayWait() {
		g.checks = g.set.Checks(configv1.GuardSide_ANSWERS)
	}
	return g.answer
}

// noteGuard adds what was found in the answer to the record.
func (x *Exchange) noteGuard() {
	if x.guarded.answer == nil {
		return
	}
	for of, n := range x.guarded.answer.Findings {
		x.found(of, n)
	}
}
