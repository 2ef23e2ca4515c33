package reported

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A Usage is what an answer reports, in a vendor's counts. The zero value reports nothing.
type Usage struct {
	n         [fields]int64
	given     uint32       // the counts that are reported, also those that are 0
	inclusive bool         // input includes what was cached
	several   openai.Usage // the sum of iterations
	tier      string
	speed     string
	model     string // of an iteration
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (u *Usage) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	if err == nil {
		*u = Read(v)
	}
	return err
}

// take takes in a member.
func (u *Usage) take(path, token []byte, text bool) {
	f := forms[string(path)]
	switch f {
	case none, kind:
		return
	case tier, speed:
		if text {
			u.named(f, token)
		}
		return
	}
	n, ok := number(token)
	if !ok {
		return
	}
	for _, begin := range inclusive {
		u.inclusive = u.inclusive || len(path) > len(begin) && string(path[:len(begin)]) == begin
	}
	if f == fetches {
		u.given |= 1 << searches
		return
	}
	u.set(f, n)
}

// set takes in a count. A vendor may have several names for one.
func (u *Usage) set(f field, n int64) {
	u.n[f], u.given = max(u.n[f], n), u.given|1<<f
}

// add takes in a part of a count.
func (u *Usage) add(f field, n int64) {
	u.n[f], u.given = openai.Count(u.n[f]+n), u.given|1<<f
}

func (u *Usage) named(f field, name []byte) {
	to := &u.tier
	if f == speed {
		to = &u.speed
	}
	switch string(name) { // the usual ones are not copied
	case "standard":
		*to = "standard"
	case "default":
		*to = "default"
	case "priority":
		*to = "priority"
	case "fast":
		*to = "fast"
	default:
		*to = string(name)
	}
}

// iterate adds an iteration of a model. One without output was refused, and a fallback has answered: it is not billed.
func (u *Usage) iterate(by openai.Usage, model string) {
	if by.CompletionTokens == 0 {
		return
	}
	addRequest(&u.several, &by)
	at, models := &u.several.ByModel, 0
	for ; *at != nil && (*at).Model != model; at = &(*at).Next {
		models++
	}
	if *at == nil && models == maxModels {
		return // it costs what the answer's model costs
	}
	if *at == nil {
		*at = &openai.ModelUsage{Model: model}
	}
	addRequest(&(*at).Usage, &by)
}

// maxModels bounds the models that the iterations of an answer name.
const maxModels = 8

// addRequest adds the usage of one request to a sum.
func addRequest(sum, by *openai.Usage) {
	longest := max(sum.LongestPrompt, by.PromptTokens)
	sum.Add(by)
	sum.LongestPrompt = longest
}

// Later takes in a later report of the same answer. Counts cover the whole answer so far, so each that is reported
// replaces the one before, also if it is 0. A report with a sum replaces all, because vendors leave out zeros. A
// report without tokens of the prompt, or of the answer, says nothing about it.
func (u *Usage) Later(l *Usage) {
	if l.n[total] > 0 {
		for f := range fields {
			if ofAll&(1<<f) != 0 {
				u.n[f] = 0
			}
		}
		u.given &^= ofAll
	}
	for _, side := range [...]uint32{ofPrompt, ofAnswer, 1 << searches, 1 << requests, 1 << units, 1 << compute} {
		if l.given&side == 0 || side&ofAll != 0 && l.sum(side) == 0 {
			continue
		}
		if side == ofPrompt {
			u.rewrite(l)
		}
		if side&ofAll != 0 {
			u.n[total] = 0 // it was of the counts before
		}
		for f := range fields {
			if l.given&side&(1<<f) != 0 {
				u.n[f] = l.n[f]
			}
		}
		u.given |= l.given & side
	}
	if l.n[total] > 0 {
		u.n[total], u.given = l.n[total], u.given|1<<total
	}
	u.inclusive = u.inclusive || l.inclusive
	if !l.several.IsZero() {
		u.several = l.several
	}
	if l.tier != "" {
		u.tier = l.tier
	}
	if l.speed != "" {
		u.speed = l.speed
	}
}

// rewrite drops what was reported of writes to a cache and does not agree with a later report.
func (u *Usage) rewrite(l *Usage) {
	switch {
	case l.given&writes != 0 && l.given&splits == 0:
		if u.n[brief]+u.n[hour] > max(l.n[write], l.n[partWrite]) {
			u.n[brief], u.n[hour] = 0, 0
		}
	case l.given&splits != 0 && l.given&writes == 0:
		u.n[write], u.n[partWrite] = 0, 0
	}
}

func (u *Usage) sum(of uint32) (all int64) {
	for f := range fields {
		if of&(1<<f) != 0 {
			all += u.n[f]
		}
	}
	return all
}

// OpenAI returns the usage as OpenAI counts it.
func (u *Usage) OpenAI() openai.Usage {
	out := u.counted()
	if out.CompletionTokens == 0 {
		out.CompletionTokens = u.n[output]
	}
	apart := u.prompt(&out)
	if out.PromptTokens+out.CompletionTokens == 0 {
		out.PromptTokens, out.CompletionTokens = u.n[billedIn]+u.n[billedSeen], u.n[billedOut]
	}
	if out.PromptTokens+out.CompletionTokens == 0 { // of an embedding or a rerank
		out.PromptTokens = u.n[total]
	}
	// Some vendors count the reasoning apart: only the total includes it, or not even that.
	more := out.ReasoningTokens > out.CompletionTokens
	if r := out.ReasoningTokens; more || r > 0 && out.TotalTokens == out.PromptTokens+out.CompletionTokens+r {
		out.CompletionTokens += r
	}
	if sum := out.PromptTokens + out.CompletionTokens; out.TotalTokens == 0 || apart || more {
		out.TotalTokens = max(out.TotalTokens, sum)
	}
	out.MorePrompt = u.n[seen]
	if billed := u.n[billedIn] + u.n[billedSeen]; billed > 0 {
		out.MorePrompt = billed - out.PromptTokens
	}
	if billed := u.n[billedOut]; billed > 0 {
		out.MoreAnswer = billed - out.CompletionTokens
	}
	if !u.several.IsZero() {
		if out.Largest(&u.several); out.LongestPrompt == out.PromptTokens {
			out.LongestPrompt = 0
		}
		if m := out.ByModel; m != nil && m.Model == "" && m.Next == nil {
			out.ByModel = nil // none is named
		}
	}
	if out.PromptTokens+out.CompletionTokens > 0 {
		out.Speed = u.speed
		out.SearchesKnown = u.n[searches] > 0 || apart && u.given&(1<<searches) != 0
		if u.given&(1<<requests) != 0 {
			out.Searches, out.SearchesKnown, out.SearchesBilled = u.n[requests], true, true
		}
	}
	return out
}

// prompt sets the tokens of the prompt. It reports whether the vendor counts what was cached apart.
func (u *Usage) prompt(out *openai.Usage) (apart bool) {
	cached := u.n[read] + max(u.n[write], u.n[brief]+u.n[hour])
	if whole := u.n[prompt]; whole > 0 || u.n[input]+cached == 0 {
		out.PromptTokens = whole + u.n[tools]
		if apart = u.n[read]+u.n[write] > whole; apart { // parts that are more than the whole are none of it
			out.PromptTokens += cached
		}
		return apart
	}
	out.PromptTokens = u.n[input]
	if apart = !u.inclusive || u.n[read]+u.n[write] > u.n[input]; apart {
		out.PromptTokens += cached
	}
	return apart
}

// Tier returns OpenAI's name of the service tier that was given, or "".
func (u *Usage) Tier() string { return TierName(u.tier) }

// TierName returns OpenAI's name of a vendor's service tier.
func TierName(vendors string) string {
	if name, ok := tiers[vendors]; ok {
		return name
	}
	return vendors
}
