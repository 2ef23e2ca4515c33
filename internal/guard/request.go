package guard

import (
	"context"
	"errors"
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// A Request is a request that was looked at.
type Request struct {
	Body     []byte // with placeholders, if something was masked
	Masks    *Masks
	Findings Findings
	Blocked  string // the rule that refuses it, or ""
	// Unmaskable is the member with a text to mask that cannot hold a placeholder, or "".
	Unmaskable string
	// Texts are those for the model, with placeholders, if there are Checks.
	Texts []string
}

// ErrUnread means that a body cannot be looked at. It must not pass then.
var ErrUnread = openai.CodeInvalidJSON.New(
	"The request body is not valid JSON, so that guardrails cannot look at it.")

// errTokens means that prompts are tokens. They must not pass a rule that looks at texts.
var errTokens = openai.CodeNotGuarded.New(
	"A guardrail applies to this key, and cannot look at prompts that are tokens. Send them as text.")

// Request looks at the texts of a request, whose body is JSON in the dialect of any client. The error
// comes from ctx or work, is an *Unjudged, or is for the client.
func (s *Set) Request(ctx context.Context, work *Work, body []byte) (Request, error) {
	return s.request(ctx, work, body, &Masks{}, s.judges(configv1.GuardSide_REQUESTS))
}

// request looks at a request that may contain masks already, and gathers its texts.
func (s *Set) request(ctx context.Context, work *Work, body []byte, masks *Masks, gathers bool) (Request, error) {
	w := &walk{set: s, work: work, side: configv1.GuardSide_REQUESTS, body: body, findings: Findings{}, masks: masks,
		gathers: gathers, again: !masks.IsEmpty()}
	masked, err := w.document(ctx, body, spot{})
	switch {
	case work.failure != nil:
		return Request{}, work.failure
	case err != nil && !errors.Is(err, errBlocked):
		return Request{}, ErrUnread
	}
	work.note(w.findings, SideRequest)
	if err == nil && w.tokens && s.reads() {
		return Request{}, errTokens
	}
	w.bounds()
	r := Request{Body: body, Masks: masks, Findings: w.findings, Blocked: w.blocked, Unmaskable: w.unmaskable,
		Texts: w.texts}
	if r.Blocked == "" {
		r.Body = masked
	}
	return r, nil
}

// reads reports whether a rule that does more than observe looks at the texts of requests.
func (s *Set) reads() bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool {
		return r.isStrict() && r.config.LooksIn(configv1.GuardSide_REQUESTS) &&
			(len(r.finds) > 0 || r.config.GetChecker() != "")
	})
}

// found notes a finding that is no text. It is true if the rule refuses the request.
func (w *walk) found(r *rule) bool {
	w.findings.add(r, SideRequest)
	if r.config.GetMode() == configv1.GuardMode_BLOCK && w.blocked == "" {
		w.blocked = r.name
	}
	return w.blocked != ""
}

// bounds looks at the size of the request.
func (w *walk) bounds() {
	for _, r := range w.set.rules {
		characters, messages := r.config.GetMaxCharacters(), r.config.GetMaxMessages()
		exceeds := characters > 0 && w.characters > characters || messages > 0 && w.messages > messages
		if exceeds && w.blocked == "" {
			w.found(r)
		}
	}
}
