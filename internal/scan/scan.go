// Package scan finds words and regular expressions in texts, in steps that are counted: tenants write both the lists
// and the texts, and a request must not take more than its share of the processor.
//
// The work on words grows with the text, and not with the number of words. Package regexp is no alternative for
// patterns: it can neither be interrupted nor counted, and matches of one pattern may cost the square of the text.
package scan

import (
	"context"
	"errors"
)

// ErrSpent says that the work of a request is used up.
var ErrSpent = errors.New("the request takes more work than one may")

// piece is after how many steps the context is looked at: less than a millisecond.
const piece = 1 << 16

// Work counts the steps on one request. A step takes a few nanoseconds. It is used by one goroutine at a time.
type Work struct {
	// Pause, if not nil, is called after each piece of work. It may wait, and its error ends the work.
	Pause func(context.Context) error

	left, piece int64
}

// NewWork returns Work of so many steps at most.
func NewWork(steps int64) *Work { return &Work{left: steps, piece: piece} }

// Spend counts steps. Its error ends the work: ErrSpent, or the context's.
func (w *Work) Spend(ctx context.Context, steps int) error {
	w.left -= int64(steps)
	if w.piece -= int64(steps); w.piece > 0 && w.left >= 0 {
		return nil
	}
	return w.next(ctx)
}

func (w *Work) next(ctx context.Context) error {
	w.piece = piece
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.left < 0 {
		return ErrSpent
	}
	if w.Pause != nil {
		return w.Pause(ctx)
	}
	return nil
}

// Left returns how many steps are left.
func (w *Work) Left() int64 { return w.left }
