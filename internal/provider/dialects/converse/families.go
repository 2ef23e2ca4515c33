package converse

import (
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// An effortForm is how a reasoning effort is said to the models of a family.
type effortForm byte

const (
	effortNone     effortForm = iota
	effortThinking            // as Anthropic's thinking and output_config
	effortFlat                // as "reasoning_effort": level
	effortQwen                // as "reasoning_config": level
	effortNova                // as "reasoningConfig": {"type", "maxReasoningEffort"}
)

// A family has the demands of a publisher's models on a request, beyond the catalog's facts about a single
// model. Sources: AWS's documentation of Converse and requests that were tried on it.
type family struct {
	effort effortForm
	// topK is where top_k goes among the additional fields; empty: it is not taken.
	topK []string
	// caches and cachesTools say that cache points are taken in the conversation and among the tools.
	caches, cachesTools bool
	// resultsAlone: the turn that has the results of tools has nothing else. noFilesBesideResults: no documents and
	// videos.
	resultsAlone, noFilesBesideResults bool
	// assistantFirst: the conversation may begin with the assistant.
	assistantFirst bool
	// shortIDs: ids of calls are nine letters and digits.
	shortIDs bool
	// noStatus: results have no status.
	noStatus bool
	// resultImages and resultDocuments are what results may hold beside text.
	resultImages, resultDocuments bool
}

// families are the publishers' families, by their names in names of models.
var families = map[string]*family{
	"anthropic": {effort: effortThinking, topK: []string{"top_k"}, caches: true, cachesTools: true,
		noFilesBesideResults: true,
		assistantFirst:       true, resultImages: true, resultDocuments: true},
	"amazon":     {effort: effortNova, topK: []string{"inferenceConfig", "topK"}, caches: true, resultImages: true},
	"openai":     {effort: effortFlat, resultImages: true},
	"deepseek":   {effort: effortFlat, resultImages: true},
	"moonshot":   {effort: effortFlat, assistantFirst: true},
	"moonshotai": {effort: effortFlat, assistantFirst: true},
	"qwen":       {effort: effortQwen, assistantFirst: true},
	"zai":        {assistantFirst: true, resultImages: true},
	"meta":       {resultsAlone: true, resultImages: true, resultDocuments: true},
	"mistral":    {resultsAlone: true, shortIDs: true, resultDocuments: true},
	"writer":     {resultsAlone: true, noStatus: true, resultImages: true},
	"cohere":     other,
	"ai21":       other,
	"google":     other,
	"minimax":    other,
	"nvidia":     other,
}

// other is the family without special facts.
var other = &family{resultImages: true}

// familyOf returns the family of a model. If the name does not tell, as with an application's inference profile, an
// operator's catalog does: only Claude thinks in Anthropic's ways.
func familyOf(model string, can *configv1.Capabilities) *family {
	if f := families[publisher(model)]; f != nil {
		return f
	}
	switch can.GetThinking() {
	case configv1.Thinking_BUDGET, configv1.Thinking_ADAPTIVE:
		return families["anthropic"]
	}
	return other
}

// IsClaude reports whether a model is one of Claude's, by its name or by its facts.
func IsClaude(t provider.Target) bool { return familyOf(t.Model, t.Can()) == families["anthropic"] }

// publisher returns who made a model: the first part of its name that is a publisher's. Names are
// amazon.nova-lite-v1:0, us.anthropic.claude-..., with the region that a profile spans, and ARNs that end in such a
// name.
func publisher(model string) string {
	for part := range strings.FieldsFuncSeq(model, func(r rune) bool { return r == '.' || r == '/' || r == ':' }) {
		if families[part] != nil {
			return part
		}
	}
	return ""
}
