package tokens

// bytesPerToken is how long a token of English text is with the vocabularies in use. Code, and languages that are not
// written in Latin letters, make shorter ones.
const bytesPerToken = 4

// Estimate guesses how many tokens a text of so many bytes has, without looking at it: for reservations, which are
// settled with the true count. It is never less than one for a text that is not empty.
func Estimate(bytes int) int64 {
	return (int64(max(bytes, 0)) + bytesPerToken - 1) / bytesPerToken
}
