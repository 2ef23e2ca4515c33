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
	prompt, answer := u.OfPrompt(), u.OfAnswer()
	for _, n := range prompt {
		doubtful = bound(n, context) || doubtful
	}
	for _, n := range answer {
		doubtful = bound(n, output) || doubtful
	}
	doubtful = bound(&u.TotalTokens, context+output) || doubtful
	for _, n := range u.Pieces() {
		if most := maxCalls * answers; *n < 0 || *n > most {
			*n, doubtful = min(max(*n, 0), most), true
		}
	}
	if u.MorePrompt > margin*context || u.MoreAnswer > margin*output {
		u.MorePrompt, u.MoreAnswer, doubtful = 0, 0, true
	}
	if doubtful {
		u.ByModel = nil // parts of what is not believed
		for _, part := range prompt[1:] {
			*part = min(*part, u.PromptTokens)
		}
		for _, part := range answer[1:] {
			*part = min(*part, u.CompletionTokens)
		}
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
