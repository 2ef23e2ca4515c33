package batches

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/modelgate/modelgate/jobsvc/files"
)

// near is how far ahead a line is read up to instead of opened anew, in bytes.
const near = 4 << 20

// A random reads lines of an input in any order. It is fast where that is nearly the input's own. One goroutine uses it at a time.
type random struct {
	open     func(ctx context.Context, offset int64) (io.ReadCloser, error)
	parser   parser
	offsets  map[int]int64 // of lines, by their numbers
	input    io.Closer     // of lines
	lines    *lines
	last     int // the line that was read last
	previous request
}

// newRandom reads the input once to learn where its lines are.
func newRandom(ctx context.Context, endpoint string, open func(context.Context, int64) (io.ReadCloser, error)) (*random, error) {
	input, err := open(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = input.Close() }() // it was only read
	r := &random{open: open, parser: parser{endpoint: endpoint}, offsets: map[int]int64{}}
	for l := newLines(input); ; {
		_, err := l.next()
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, missing(err)
		}
		r.offsets[l.number] = l.begin
	}
}

// request returns the request of a line. It is valid until the next call.
func (r *random) request(ctx context.Context, number int) (request, error) {
	if number == r.last {
		return r.previous, nil
	}
	offset, ok := r.offsets[number]
	if !ok {
		return request{}, fmt.Errorf("the input has no line %d", number)
	}
	if r.lines == nil || offset < r.lines.end || offset > r.lines.end+near {
		r.close()
		input, err := r.open(ctx, offset)
		if err != nil {
			return request{}, err
		}
		r.input, r.lines = input, newLines(input).at(number, offset)
	}
	for r.last = 0; ; {
		text, err := r.lines.next()
		if err != nil {
			r.close()
			return request{}, missing(err)
		}
		if r.lines.number < number {
			continue
		}
		q, problem := r.parser.parse(text)
		if problem != nil {
			return request{}, fmt.Errorf("line %d is not what was validated: %s: %w", number, problem.Code, files.ErrMissing)
		}
		r.last, r.previous = number, q
		return q, nil
	}
}

// close ends the use of the input. A request that was returned stays valid.
func (r *random) close() {
	if r.input != nil {
		_ = r.input.Close() // it was only read
		r.input, r.lines = nil, nil
	}
}
