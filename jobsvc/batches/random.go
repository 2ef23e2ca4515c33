package batches

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// near is how far ahead a line is read up to instead of opened anew, in bytes.
const near = 4 << 20

// A random reads lines of an input in any order. It is fast if that is nearly the input's own. One goroutine uses
// it at a time.
type random struct {
	input    input
	parser   parser
	offsets  map[int]int64 // of lines, by their numbers
	reader   io.Closer     // of lines
	lines    *lines
	last     int // the line that was read last
	previous request
}

// newRandom reads the input once to learn where its lines are.
func newRandom(ctx context.Context, i input) (*random, error) {
	all, err := i.open(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }() // it was only read
	r := &random{input: i, parser: parser{endpoint: i.endpoint}, offsets: map[int]int64{}}
	for l := newLines(all, roomIn(ctx)); ; {
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

// body returns the body of a line, as a [provider.Batch] asks for it.
func (r *random) body(ctx context.Context, line int) ([]byte, error) {
	q, err := r.request(ctx, line)
	return q.body, err
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
		from, err := r.input.open(ctx, offset)
		if err != nil {
			return request{}, err
		}
		r.reader, r.lines = from, newLines(from, roomIn(ctx)).at(number, offset)
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
		q, err := r.parser.valid(text, number)
		if err != nil {
			return request{}, err
		}
		r.last, r.previous = number, q
		return q, nil
	}
}

// close ends the use of the input. A request that was returned stays valid.
func (r *random) close() {
	if r.reader != nil {
		_ = r.reader.Close() // it was only read
		r.reader, r.lines = nil, nil
	}
}
