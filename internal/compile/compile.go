// Package compile makes the objects that decide about requests ready for use, once for all who need them: the ext_proc
// service, explain, and the control plane, which serves them. What has not changed is not compiled again.
package compile

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/jwtauth"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/respcache"
)

// A Ruling object can be disabled.
type Ruling interface {
	GetName() string
	GetDisabled() bool
}

// InForce returns the objects that are not disabled, by name. Rules are asked in this order.
func InForce[T Ruling](all []T) []T {
	var on []T
	for _, o := range all {
		if !o.GetDisabled() {
			on = append(on, o)
		}
	}
	slices.SortFunc(on, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return on
}

// Rules are one configuration's decisions about requests, compiled. They are immutable.
type Rules struct {
	Guardrails guard.Rails
	Policies   policy.Policies
	Checkers   contentcheck.Checkers
	Caches     respcache.Caches
	Tokens     *jwtauth.Verifier
}

// Options are what rules use besides the configuration.
type Options struct {
	Answers *respcache.Redis // nil: answers are kept in memory
	Log     *zap.Logger
}

// Next returns the rules of a configuration that follows the one of r. Unchanged objects stay as they are, and keep
// their state. After an error, r stays in force as a whole.
func (r Rules) Next(s *configv1.Settings, o Options) (next Rules, err error) {
	if next.Guardrails, err = r.Guardrails.Next(s.GetGuardrails()); err != nil {
		return r, err
	}
	if next.Policies, err = r.Policies.Next(s.GetPolicies()); err != nil {
		return r, err
	}
	if next.Checkers, err = contentcheck.New(s.GetCheckers(), r.Checkers, o.Log); err != nil {
		return r, err
	}
	if next.Tokens, err = r.Tokens.Next(s.GetIssuers()); err != nil {
		return r, err
	}
	next.Caches, err = respcache.Compile(s.GetResponseCaches(), s.GetKeyPepper(), s.GetGuardrails(), o.Answers, r.Caches,
		o.Log)
	if err != nil {
		return r, err
	}
	return next, nil
}
