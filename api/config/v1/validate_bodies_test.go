package configv1_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestBodiesAreValidated(t *testing.T) {
	pattern := func(name, text string) *configv1.Bodies {
		return &configv1.Bodies{Patterns: []*configv1.Redaction{{Name: name, Pattern: text}}}
	}
	for _, tc := range []struct {
		bodies *configv1.Bodies
		field  string
	}{
		{nil, ""}, {&configv1.Bodies{}, ""}, {&configv1.Bodies{Share: 1, Redact: []string{"none"}}, ""},
		{pattern("ticket", `ACME-[0-9]+`), ""}, {pattern("wide", `(?i)secret\s*=\s*\S+`), ""},
		{&configv1.Bodies{Share: -0.1}, "bodies.share"}, {&configv1.Bodies{Share: 1.1}, "bodies.share"},
		{&configv1.Bodies{Share: math.NaN()}, "bodies.share"},
		{&configv1.Bodies{Redact: []string{"names"}}, "bodies.redact[0]"},
		{&configv1.Bodies{Redact: []string{"none", "card"}}, "bodies.redact"},
		{pattern("", "a"), "bodies.patterns[0].name"}, {pattern("a]", "a"), "bodies.patterns[0].name"},
		{pattern("a", ""), "bodies.patterns[0].pattern"}, {pattern("a", "("), "bodies.patterns[0].pattern"},
		{pattern("a", `(a)\1`), "bodies.patterns[0].pattern"}, // RE2 has no references, which would take long
		{pattern("a", "a*"), "bodies.patterns[0].pattern"},
		{pattern("a", strings.Repeat("a", 513)), "bodies.patterns[0].pattern"},
		{pattern("a", "((a{100}){9}){9}"), "bodies.patterns[0].pattern"},
		{pattern("a", `\pL{900}\pN{900}\pS{900}`), "bodies.patterns[0].pattern"},
		{&configv1.Bodies{Patterns: slices.Repeat(pattern("a", "a").GetPatterns(), 17)}, "bodies.patterns"},
		{&configv1.Bodies{MaxBytes: 1<<20 + 1}, "bodies.max_bytes"},
		{&configv1.Bodies{MaxTotalBytes: 1<<50 + 1}, "bodies.max_total_bytes"},
		{&configv1.Bodies{Retention: durationpb.New(time.Second)}, "bodies.retention"},
		{&configv1.Bodies{Retention: durationpb.New(9000 * time.Hour)}, "bodies.retention"},
	} {
		for _, o := range []configv1.Object{&configv1.Organization{Name: "o", Bodies: tc.bodies},
			&configv1.Project{Name: "o/p", Bodies: tc.bodies},
			&configv1.Key{Name: "key_1", Hash: make([]byte, 32), Bodies: tc.bodies}} {
			requireFields(t, configv1.Validate(o, knownVendor), tc.field)
		}
	}
}
