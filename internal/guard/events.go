package guard

import (
	"bytes"
	"context"
	"errors"
)

// Events judges whole server-sent events, each by itself: its data are a JSON document, or a text. The error says that
// a rule refuses the answer.
func (a *Answer) Events(ctx context.Context, events []byte) ([]byte, error) {
	out := make([]byte, 0, len(events))
	for line := range bytes.Lines(events) {
		text := bytes.TrimRight(line, "\r\n")
		end := line[len(text):]
		if value, isData := bytes.CutPrefix(text, []byte("data:")); isData && len(value) > 0 {
			judged, err := a.Document(ctx, value)
			if errors.Is(err, errUnreadAnswer) {
				judged, err = a.text(ctx, value)
			}
			if err != nil {
				return nil, err
			}
			text = append([]byte("data:"), judged...)
		}
		out = append(append(out, text...), end...)
	}
	return out, nil
}
