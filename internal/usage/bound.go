package usage

import (
	"cmp"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

const (
	// anyModel bounds the tokens of a prompt or an answer of an unknown model. No model takes as many.
	anyModel = 1 << 24
	// margin is how far a vendor's count may be above what is known of its model: catalogs are behind, and a vendor
	// that runs tools itself counts the prompt again for each.
	margin = 8
	// maxCalls bounds the searches of one answer, and other units that are billed by the piece.
	maxCalls = 1000
)

// Bound bounds the usage that a vendor reports to what the model can do, for a number of answers. It reports
// whether the vendor's figures are doubtful. Every charge of a vendor's report goes through it.
func Bound(u *openai.Usage, can *configv1.Capabilities, answers int64) (doubtful bool) {
	context := cmp.Or(can.GetContextTokens(), anyModel)
	output := cmp.Or(can.GetMaxOutputTokens(), min(context, anyModel))
	answers = min(max(answers, 1), maxAnswers) // or prompts, and each has answers
	context, output = context*answers, output*answers
	for _, c := range [...]struct {
		n    *int64
		most int64
	}{{&u.PromptTokens, context}, {&u.CachedTokens, context}, {&u.CacheWriteTokens, context},
		{&u.HourWriteTokens, context}, {&u.PromptAudio, context}, {&u.CompletionTokens, output},
		{&u.ReasoningTokens, output}, {&u.CompletionAudio, output}, {&u.TotalTokens, context + output}} {
		if bound(c.n, c.most) {
			doubtful = true
		}
	}
	for _, n := range [...]*int64{&u.Searches, &u.Units, &u.ComputeUnits} {
		if most := maxCalls * answers; *n < 0 || *n > most {
			*n, doubtful = min(max(*n, 0), most), true
		}
	}
	if u.MorePrompt > margin*context || u.MoreAnswer > margin*output {
		u.MorePrompt, u.MoreAnswer, doubtful = 0, 0, true
	}
	if doubtful {
		for _, part := range [...]*int64{&u.CachedTokens, &u.CacheWriteTokens, &u.HourWriteTokens, &u.PromptAudio} {
			*part = min(*part, u.PromptTokens)
		}
		u.ReasoningTokens = min(u.ReasoningTokens, u.CompletionTokens)
		u.CompletionAudio = min(u.CompletionAudio, u.CompletionTokens)
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return doubtful
}

// maxAnswers bounds the answers that a request may ask for.
const maxAnswers = 128

// bound sets a count to the most that is possible, if it is far above.
func bound(n *int64, most int64) bool {
	switch {
	case *n < 0:
		*n = 0
	case *n > margin*most:
		*n = most
	default:
		return false
	}
	return true
}
