package cases

import (
	"testing"
)

// Run runs every case over a gateway that start makes.
func Run(t *testing.T, start Start) {
	a, b := newVendor(t), newVendor(t)
	g := start(t, a, b)
	g.A, g.B = a, b
	for _, group := range []struct {
		name string
		run  func(t *testing.T, g *Gateway)
	}{
		{"Keys", keys},
		{"Requests", requests},
		{"Models", models},
		{"SameDialect", sameDialect},
		{"OtherDialect", otherDialect},
		{"Fallback", fallback},
		{"ProviderErrors", providerErrors},
		{"StreamBegins", streamBegins},
		{"StreamEnds", streamEnds},
		{"Bedrock", bedrock},
		{"Cancel", cancel},
		{"Completions", completions},
		{"Embeddings", embeddings},
		{"Rerank", rerank},
		{"Native", natives},
		{"Messages", messages},
		{"Gemini", gemini},
		{"NotServed", notServed},
		{"Routes", routes},
		{"Catalog", catalogOverride},
		{"Outcomes", outcomes},
		{"Admission", admission},
		{"Limits", limits},
	} {
		t.Run(group.name, func(t *testing.T) {
			a.Answers(nil)
			b.Answers(nil)
			group.run(t, g)
		})
	}
}
