package guard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/request"
)

// set compiles rules of one guardrail.
func set(t testing.TB, rules ...*configv1.GuardRule) *Set {
	t.Helper()
	for i, r := range rules {
		if r.Name == "" {
			r.Name = "r" + string(rune('0'+i))
		}
	}
	g := &configv1.Guardrail{Name: "g", Rules: rules}
	require.NoError(t, configv1.Validate(g, nil).Err())
	rails, err := Compile([]*configv1.Guardrail{g})
	require.NoError(t, err)
	return rails.For(&request.Subject{}, "m", nil)
}

func finds(mode configv1.GuardMode, data ...configv1.SensitiveData) *configv1.GuardRule {
	return &configv1.GuardRule{Mode: mode, Data: data}
}

const (
	observe = configv1.GuardMode_OBSERVE
	mask    = configv1.GuardMode_MASK
	block   = configv1.GuardMode_BLOCK
)

func everyKind() *configv1.GuardRule {
	r := &configv1.GuardRule{Mode: mask}
	for n := int32(1); configv1.SensitiveData_name[n] != ""; n++ {
		r.Data = append(r.Data, configv1.SensitiveData(n))
	}
	return r
}

func TestSensitiveData(t *testing.T) {
	s := set(t, everyKind())
	for text, want := range map[string]string{
		"write to ann.b+c@mail.example.co.uk.":                            "EMAIL ann.b+c@mail.example.co.uk",
		"an @ in code: a@b, x@ and @decorator":                            "",
		"call +49 (30) 1234-5678 now":                                     "PHONE +49 (30) 1234-5678",
		"call (555) 123-4567 or 555-123-4567":                             "PHONE (555) 123-4567|PHONE 555-123-4567",
		"order 1234567890 of 2024-10-05T10:00:00Z":                        "",
		"card 4111 1111 1111 1111 123":                                    "CARD 4111 1111 1111 1111",
		"card 4111-1111-1111-1112":                                        "",
		"amex 378282246310005 and 3782 822463 10005":                      "CARD 378282246310005|CARD 3782 822463 10005",
		"all ones 1111111111111111":                                       "",
		"IBAN DE89 3704 0044 0532 0130 00 and":                            "IBAN DE89 3704 0044 0532 0130 00",
		"TO AT61 1904 3002 3457 3201 AND":                                 "IBAN AT61 1904 3002 3457 3201",
		"GB82WEST12345698765432":                                          "IBAN GB82WEST12345698765432",
		"GB83WEST12345698765432":                                          "",
		"ssn 123-45-6789, not 000-45-6789 or 900-45-6789":                 "US_SSN 123-45-6789",
		"from 192.168.0.12 to 2001:db8::8a2e:370:7334, at 12:30:45":       "IP_ADDRESS 192.168.0.12|IP_ADDRESS 2001:db8::8a2e:370:7334",
		"version 1.2.3, std::vector, 999.1.1.1":                           "",
		"key sk-proj-abcdefghijklmnopqrstuvwx":                            "SECRET sk-proj-abcdefghijklmnopqrstuvwx",
		"AKIAIOSFODNN7EXAMPLE ghp_" + strings.Repeat("a", 36):             "SECRET AKIAIOSFODNN7EXAMPLE|SECRET ghp_" + strings.Repeat("a", 36),
		"call +49 30 1234567 2024 1234, +44 20 7946 0958 2024-01-02":      "PHONE +49 30 1234567 2024|PHONE +44 20 7946 0958",
		"diners 3056 930902 5904, 6222 0200 0000 0000 000":                "CARD 3056 930902 5904|CARD 6222 0200 0000 0000 000",
		"iban de89 3704 0044 0532 0130 00 please, xx89370400440532013000": "IBAN de89 3704 0044 0532 0130 00",
		"o'brien@x.example, 'ann@x.example', ann@x.xn--p1ai":              "EMAIL o'brien@x.example|EMAIL ann@x.example|EMAIL ann@x.xn--p1ai",
		"xai-abcdefghijklmnopqrstuvwx tgp_v1_abcdefghijklmnopqrstuvwx_yz-123456, pplx-7b-online": "SECRET xai-abcdefghijklmnopqrstuvwx|" +
			"SECRET tgp_v1_abcdefghijklmnopqrstuvwx_yz-123456",
		"a task-force, a risk-averse asia":                                      "",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- x": "SECRET -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----",
	} {
		var got []string
		for _, f := range s.inRequest(text) {
			got = append(got, f.label+" "+text[f.from:f.to])
		}
		require.Equal(t, want, strings.Join(got, "|"), text)
	}
}

func TestWordsAndPatterns(t *testing.T) {
	s := set(t, &configv1.GuardRule{Name: "code-names", Mode: block, Words: []string{"Project X", "größe", "c++"}},
		&configv1.GuardRule{Name: "ticket", Mode: mask, Patterns: []string{`TICKET-\d+`}})
	for text, want := range map[string]string{
		"about PROJECT X today": "g/code-names", "about project xylophone": "", "die GRÖßE": "g/code-names",
		"in C++ it is": "g/code-names", "TICKET-17": "g/ticket", "TICKET-": "",
	} {
		got := ""
		for _, f := range s.inRequest(text) {
			got += f.rule.name
		}
		require.Equal(t, want, got, text)
	}
}

func TestTheStricterRuleGoesFirst(t *testing.T) {
	s := set(t, finds(observe, configv1.SensitiveData_EMAIL),
		&configv1.GuardRule{Mode: mask, Patterns: []string{`example\.com`}})
	found := s.inRequest("ann@example.com")
	require.Len(t, found, 1)
	require.Equal(t, mask, found[0].rule.config.GetMode())
}

// What two rules find, or a rule twice, is masked as a whole.
func TestOverlappingFindingsAreMaskedToTheirEnd(t *testing.T) {
	s := set(t, everyKind())
	for text, want := range map[string]string{
		"+1 555 123 4567 4111 1111 1111 1111 ok": "PHONE +1 555 123 4567 4111 1111 1111 1111",
		"2222 4111 1111 1111 1111 ok":            "IN_AADHAAR 2222 4111 1111 1111 1111",
	} {
		found := s.inRequest(text)
		require.Len(t, found, 1, text)
		require.Equal(t, want, found[0].label+" "+text[found[0].from:found[0].to])
	}
}

func TestWhoIsGuarded(t *testing.T) {
	rule := finds(mask, configv1.SensitiveData_EMAIL)
	rails, err := Compile([]*configv1.Guardrail{
		{Name: "org", Organization: "acme", Rules: []*configv1.GuardRule{rule}},
		{Name: "project", Organization: "acme", Project: "p", Models: []string{"gpt-*"}, Rules: []*configv1.GuardRule{rule}},
		{Name: "key", Key: "k", Rules: []*configv1.GuardRule{finds(observe, configv1.SensitiveData_EMAIL)}},
	})
	require.NoError(t, err)
	count := func(c *request.Subject, model string) int {
		if s := rails.For(c, model, nil); s != nil {
			return len(s.rules)
		}
		return 0
	}
	require.Equal(t, 0, count(&request.Subject{Key: "x"}, "gpt-5"))
	require.Equal(t, 1, count(&request.Subject{Key: "x", Organization: "acme"}, "gpt-5"))
	require.Equal(t, 2, count(&request.Subject{Key: "x", Organization: "acme", Project: "p"}, "gpt-5"))
	require.Equal(t, 1, count(&request.Subject{Key: "x", Organization: "acme", Project: "p"}, "claude"))
	require.Equal(t, 0, count(&request.Subject{Key: "x", Organization: "other", Project: "p"}, "gpt-5"))
	require.Equal(t, 1, count(&request.Subject{Key: "k"}, "gpt-5"))
	require.False(t, rails.Guards(&request.Subject{Key: "k"}), "it only observes")
	require.True(t, rails.Guards(&request.Subject{Key: "k", Organization: "acme"}))
}
