package ledger

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteCSV writes the rows of a query with a header. A name that a spreadsheet would take for a formula begins with an apostrophe.
func (l *Ledger) WriteCSV(ctx context.Context, w io.Writer, q Query) error {
	rows, err := l.Rows(ctx, q)
	if err != nil {
		return err
	}
	out := csv.NewWriter(w)
	line := append([]string{"start"}, q.GroupBy...)
	line = append(line, "requests", "input_tokens", "input_cached_tokens", "input_cache_write_tokens", "input_audio_tokens", "output_tokens",
		"output_audio_tokens", "images", "cost_usd")
	if err := out.Write(line); err != nil {
		return fmt.Errorf("writing usage: %w", err)
	}
	for _, r := range rows {
		line = append(line[:0], r.Start.Format(time.RFC3339))
		for _, name := range r.Group {
			line = append(line, noFormula(name))
		}
		for _, n := range []int64{r.Requests, r.InputTokens, r.CachedTokens, r.CacheWriteTokens, r.InputAudioTokens, r.OutputTokens, r.OutputAudioTokens, r.Images} {
			line = append(line, strconv.FormatInt(n, 10))
		}
		if err := out.Write(append(line, r.Cost.String())); err != nil {
			return fmt.Errorf("writing usage: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}

// noFormula follows OWASP on CSV injection.
func noFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20", []rune(s)[0]) {
		return "'" + s
	}
	return s
}
