package contentcheck

import (
	"context"
	"sync"
)

// presidioText is how many characters Presidio gets at once. Its language models need memory for each.
const presidioText = 20_000

// presidio asks the analyzer of Presidio for personal data:
// https://microsoft.github.io/presidio/api-docs/api-docs.html#tag/Analyzer. It counts in characters.
func (c *Checker) presidio(ctx context.Context, call *Call) (*Verdict, error) {
	v := &Verdict{Flags: map[string]bool{}, Scores: map[string]float64{}}
	var mu sync.Mutex // guards v
	err := eachPiece(ctx, call, presidioText, func(ctx context.Context, piece string) error {
		var said []struct {
			Type  string  `json:"entity_type"`
			Start int     `json:"start"`
			End   int     `json:"end"`
			Score float64 `json:"score"`
		}
		asked := map[string]string{"text": piece, "language": c.config.Spoken()}
		if err := c.post(ctx, c.config.GetUrl(), c.bearer(), asked, &said); err != nil {
			return err
		}
		if said == nil {
			return errReading
		}
		text := []rune(piece)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range said {
			if f.Start < 0 || f.Start >= f.End || f.End > len(text) {
				return errReading
			}
			v.Flagged, v.Flags[f.Type], v.Scores[f.Type] = true, true, max(v.Scores[f.Type], f.Score)
			v.Matches = append(v.Matches, Match{Text: string(text[f.Start:f.End]), Category: f.Type, Score: f.Score})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}
