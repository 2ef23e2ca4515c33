package configv1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A rule that can find nothing would look as if it guarded.
func TestRulesOfCheckersThatCanFindNothing(t *testing.T) {
	rule := func(checker string, threshold float64, categories ...string) []configv1.Object {
		return []configv1.Object{
			&configv1.Checker{Name: "chat", Type: configv1.CheckerType_CHAT}, &configv1.Checker{Name: "azure",
				Type: configv1.CheckerType_AZURE_TEXT},
			&configv1.Checker{Name: "shield", Type: configv1.CheckerType_AZURE_SHIELD}, &configv1.Guardrail{Name: "g",
				Rules: []*configv1.GuardRule{{Name: "r", Checker: checker, Threshold: threshold, Categories: categories}}}}
	}
	for says, objects := range map[string][]configv1.Object{
		"Checker none does not exist":          rule("none", 0),
		"chat of type CHAT has no scores":      rule("chat", 0.5),
		"shield of type AZURE_SHIELD has no":   rule("shield", 1),
		"Hate, SelfHarm, Sexual and Violence":  rule("azure", 0, "Hate", "violence"),
		"categories[0]: must be one of attack": rule("shield", 0, "jailbreak"),
	} {
		require.ErrorContains(t, configv1.ValidateSet(objects), says)
	}
	for _, objects := range [][]configv1.Object{rule("chat", 0, "S1"), rule("azure", 4, "Violence"), rule("shield", 0,
		"attack")} {
		for _, o := range objects {
			if g, ok := o.(*configv1.Guardrail); ok && g.GetRules()[0].GetChecker() == "shield" {
				require.ErrorContains(t, configv1.ValidateSet(objects), "in: must be [REQUESTS]")
				g.GetRules()[0].In = []configv1.GuardSide{configv1.GuardSide_REQUESTS}
			}
		}
		require.Empty(t, configv1.ValidateSet(objects))
	}
}

func TestRulesThatMaskWhatACheckerFinds(t *testing.T) {
	rule := &configv1.GuardRule{Name: "r", Mode: configv1.GuardMode_MASK, Checker: "c"}
	rail := &configv1.Guardrail{Name: "g", Rules: []*configv1.GuardRule{rule}}
	require.ErrorContains(t, configv1.Validate(rail, knownVendor), "in: must be [REQUESTS] for MASK with a checker")
	rule.In = []configv1.GuardSide{configv1.GuardSide_REQUESTS}
	require.Empty(t, configv1.Validate(rail, knownVendor))
	for of, can := range map[configv1.CheckerType]bool{configv1.CheckerType_WEBHOOK: true,
		configv1.CheckerType_BEDROCK: true, configv1.CheckerType_PRESIDIO: true, configv1.CheckerType_CHAT: false,
		configv1.CheckerType_MODERATION: false, configv1.CheckerType_AZURE_TEXT: false} {
		errs := configv1.ValidateSet([]configv1.Object{rail, &configv1.Checker{Name: "c", Type: of}})
		if can {
			require.Empty(t, errs, of)
		} else {
			require.ErrorContains(t, errs, "does not say what to mask", of)
		}
	}
}

func TestTheLanguageOfAChecker(t *testing.T) {
	checker := func(of configv1.CheckerType, language string) configv1.Errors {
		return configv1.Validate(&configv1.Checker{Name: "c", Type: of, Url: "https://presidio.example/analyze",
			Language: language}, knownVendor)
	}
	require.Empty(t, checker(configv1.CheckerType_PRESIDIO, ""))
	require.Empty(t, checker(configv1.CheckerType_PRESIDIO, "de"))
	require.ErrorContains(t, checker(configv1.CheckerType_PRESIDIO, "German"), "language: must be two small letters")
	require.ErrorContains(t, checker(configv1.CheckerType_WEBHOOK, "de"), "language")
}

func TestTheExpressionsOfGuardrailsAndLimitsAreChecked(t *testing.T) {
	for kind, of := range map[string]func(when string) configv1.Object{
		"guardrail": func(when string) configv1.Object {
			return &configv1.Guardrail{Name: "g", When: when, Rules: []*configv1.GuardRule{{Name: "r",
				Mode: configv1.GuardMode_BLOCK, Data: []configv1.SensitiveData{configv1.SensitiveData_EMAIL}}}}
		},
		"rate limit": func(when string) configv1.Object {
			return &configv1.RateLimit{Name: "l", When: when, Domain: configv1.DomainRequests,
				Descriptors: []*configv1.RateLimitDescriptor{{Key: "key", RateLimit: &configv1.RateLimitPolicy{
					Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1}}}}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			check := func(when string) configv1.Errors { return configv1.Validate(of(when), knownVendor) }
			require.Empty(t, check(""))
			require.Empty(t, check(`key.organization == "acme" || size > 10`))
			for when, says := range map[string]string{"size": "must be true or false", "nothing == 1": "undeclared reference",
				"size >": "must be an expression in CEL", " ": "must be an expression in CEL",
				strings.Repeat("a", 5000): "at most 4096 bytes"} {
				errs := check(when)
				require.Len(t, errs, 1, when)
				require.Equal(t, "when", errs[0].Field)
				require.Contains(t, errs[0].Message, says)
			}
		})
	}
}
