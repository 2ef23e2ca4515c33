package openai

import "strconv"

// A Usage counts the tokens of one answer as OpenAI does: PromptTokens includes cached ones, CompletionTokens includes
// reasoning.
type Usage struct {
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64

	CachedTokens     int64 // part of PromptTokens, read from a cache
	CacheWriteTokens int64 // part of PromptTokens, written to a cache
	HourWriteTokens  int64 // part of CacheWriteTokens, cached for an hour
	PromptAudio      int64
	PromptImage      int64 // part of PromptTokens and MorePrompt
	ReasoningTokens  int64 // part of CompletionTokens
	CompletionAudio  int64
	CompletionImage  int64

	WritesSplit bool // the vendor reports cache writes by duration: HourWriteTokens is known

	MorePrompt int64 // what the vendor bills beyond PromptTokens; negative: it bills less
	MoreAnswer int64 // likewise, beyond CompletionTokens

	Searches       int64 // web searches of the vendor
	SearchesKnown  bool  // the vendor reports Searches, which may be 0
	SearchesBilled bool  // Searches are those that are billed, whatever calls the output has
	Units          int64 // search units of a rerank
	ComputeUnits   int64

	// LongestPrompt is the longest prompt if the usage is of several requests of the vendor. It decides which prices
	// hold, if they depend on the length. 0: there was one request.
	LongestPrompt int64
	// ByModel are the parts of a usage of several requests, if the vendor names their models. Nil: it does not.
	ByModel *ModelUsage `json:"-"`
	// Speed is the speed at which the vendor served, such as "fast". Empty: it is not reported.
	Speed string
}

// A ModelUsage is the part of a usage that is of one model, by the vendor's name. The part of the requests that name
// no model is of the model "".
type ModelUsage struct {
	Model string
	Usage Usage
	Next  *ModelUsage
}

// The numbers of counts of each kind.
const ofPrompt, ofAnswer, pieces = 6, 4, 3

// OfPrompt returns the counts of tokens of the prompt, first that of all.
func (u *Usage) OfPrompt() [ofPrompt]*int64 {
	return [ofPrompt]*int64{&u.PromptTokens, &u.CachedTokens, &u.CacheWriteTokens, &u.HourWriteTokens, &u.PromptAudio,
		&u.PromptImage}
}

// OfAnswer returns the counts of tokens of the answer, first that of all.
func (u *Usage) OfAnswer() [ofAnswer]*int64 {
	return [ofAnswer]*int64{&u.CompletionTokens, &u.ReasoningTokens, &u.CompletionAudio, &u.CompletionImage}
}

// Pieces returns the counts of what is billed by the piece.
func (u *Usage) Pieces() [pieces]*int64 {
	return [pieces]*int64{&u.Searches, &u.Units, &u.ComputeUnits}
}

// counts returns all counts that are not negative.
func (u *Usage) counts() (all [ofPrompt + ofAnswer + pieces + 2]*int64) {
	for i, n := range u.OfPrompt() {
		all[i] = n
	}
	for i, n := range u.OfAnswer() {
		all[ofPrompt+i] = n
	}
	for i, n := range u.Pieces() {
		all[ofPrompt+ofAnswer+i] = n
	}
	all[len(all)-2], all[len(all)-1] = &u.TotalTokens, &u.LongestPrompt
	return all
}

// Add adds the counts of another usage.
func (u *Usage) Add(v *Usage) {
	from := v.counts()
	for i, n := range u.counts() {
		*n = Count(*n + *from[i])
	}
	u.MorePrompt, u.MoreAnswer = u.MorePrompt+v.MorePrompt, u.MoreAnswer+v.MoreAnswer
	u.join(v)
}

// Without returns the usage without a part of it. What the part does not report in detail is within what is left.
func (u Usage) Without(part *Usage) Usage {
	from := part.counts()
	for i, n := range u.counts() {
		*n = max(0, *n-*from[i])
	}
	u.MorePrompt, u.MoreAnswer = u.MorePrompt-part.MorePrompt, u.MoreAnswer-part.MoreAnswer
	for _, of := range u.OfPrompt() {
		*of = min(*of, u.PromptTokens)
	}
	for _, of := range u.OfAnswer() {
		*of = min(*of, u.CompletionTokens)
	}
	u.HourWriteTokens = min(u.HourWriteTokens, u.CacheWriteTokens)
	return u
}

// Largest sets each count to the greater one of two usages. The parts are the second's.
func (u *Usage) Largest(v *Usage) {
	from := v.counts()
	for i, n := range u.counts() {
		*n = max(*n, *from[i])
	}
	u.MorePrompt, u.MoreAnswer = max(u.MorePrompt, v.MorePrompt), max(u.MoreAnswer, v.MoreAnswer)
	u.ByModel = v.ByModel
	u.join(v)
}

// join takes over what another usage knows.
func (u *Usage) join(v *Usage) {
	u.WritesSplit, u.SearchesKnown = u.WritesSplit || v.WritesSplit, u.SearchesKnown || v.SearchesKnown
	u.SearchesBilled = u.SearchesBilled || v.SearchesBilled
}

// MaxTokens bounds a provider's counts, so that sums cannot overflow.
const MaxTokens = 1 << 40

// Count clamps a number of tokens to the valid range. Every count of a provider goes through it.
func Count(n int64) int64 { return min(max(n, 0), MaxTokens) }

// IsZero reports whether nothing was counted, as with a provider that reports no usage.
func (u Usage) IsZero() bool { return u == Usage{} }

// AppendJSON appends the usage object to dst.
func (u Usage) AppendJSON(dst []byte) []byte {
	total := u.TotalTokens
	if total == 0 {
		total = u.PromptTokens + u.CompletionTokens
	}
	dst = appendInt(dst, `{"prompt_tokens":`, u.PromptTokens)
	dst = appendInt(dst, `,"completion_tokens":`, u.CompletionTokens)
	dst = appendInt(dst, `,"total_tokens":`, total)
	dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.CachedTokens)
	dst = appendInt(dst, `,"audio_tokens":`, u.PromptAudio)
	if u.CacheWriteTokens > 0 {
		dst = appendInt(dst, `,"cache_write_tokens":`, u.CacheWriteTokens)
	}
	if u.HourWriteTokens > 0 {
		dst = appendInt(dst, `,"cache_write_hour_tokens":`, u.HourWriteTokens)
	}
	if u.PromptImage > 0 && u.MorePrompt == 0 { // otherwise they are billed beyond the prompt
		dst = appendInt(dst, `,"image_tokens":`, u.PromptImage)
	}
	dst = appendInt(dst, `},"completion_tokens_details":{"reasoning_tokens":`, u.ReasoningTokens)
	dst = appendInt(dst, `,"audio_tokens":`, u.CompletionAudio)
	if u.CompletionImage > 0 {
		dst = appendInt(dst, `,"image_tokens":`, u.CompletionImage)
	}
	return append(dst, `,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

func appendInt(dst []byte, prefix string, n int64) []byte {
	return strconv.AppendInt(append(dst, prefix...), n, 10)
}
