package exchange

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inflight"
)

const (
	// maxPlain bounds the decompressed size of a body. Compression must not allow larger bodies than plain ones.
	maxPlain = 32 << 20
	// maxRatio bounds the compression ratio of a body of more than freePlain bytes. Text and JSON have ratios of 5 to 20.
	// A body that repeats one byte has a ratio of a thousand.
	maxRatio  = 100
	freePlain = 1 << 20
	// copies is how many copies of a body are held: the received and the translated one.
	copies = 2
	// roomTimeout bounds the time that an answer waits for room. Envoy does not read on meanwhile.
	roomTimeout = 30 * time.Second
	// leastGrowth is the smallest amount of room for an answer of unknown length.
	leastGrowth = 1 << 20
)

// Reasons to refuse a request because the process could not hold it. They are labels of a metric.
const (
	shedMemory = "memory"
	shedTotal  = "bytes"
	shedKey    = "key_bytes"
)

var errNoRoom = openai.CodeServerIsOverloaded.New("The gateway holds as many answers as it can at the moment. The provider's answer is lost.")

// checkMemory refuses a request if the process lacks memory.
func (x *Exchange) checkMemory() *openai.Error {
	if x.c.Env.Shedding == nil || !x.c.Env.Shedding() {
		return nil
	}
	x.c.Shed(shedMemory)
	return overCapacity("The gateway has no memory left for another request at the moment. Please try again later.")
}

func overCapacity(message string) *openai.Error {
	return openai.CodeServerIsOverloaded.New("%s", message).After(time.Second)
}

// holdAnnounced takes room for a body of the announced length.
func (x *Exchange) holdAnnounced(h Headers) *openai.Error {
	if n, ok := lengthOf(h); ok {
		return x.hold(n)
	}
	return nil // it is taken when the body is complete
}

// hold takes room for the request's body up to a total of bytes, or returns the refusal.
func (x *Exchange) hold(bytes int64) *openai.Error {
	switch err := x.room.Grow(x.c.Env.Bytes, x.c.Record.Key, copies*bytes); {
	case errors.Is(err, inflight.ErrKey):
		x.c.Shed(shedKey)
		return openai.CodeRateLimitExceeded.New("The requests of the key %s that run hold as many bytes as a key may have under way. Please try again when one of them has ended.", x.c.Record.Key).After(time.Second)
	case err != nil:
		x.c.Shed(shedTotal)
		return overCapacity("The gateway holds as many bytes of requests as it can at the moment. Please try again later.")
	}
	return nil
}

// heavy is the size in bytes from which a body is parsed in a goroutine of its own, so that other exchanges do not
// wait.
const heavy = 64 << 10

// IsHeavy reports whether the body can be heavy with the next piece of so many bytes.
func (x *Exchange) IsHeavy(piece int) bool {
	return piece+len(x.duplex.body) > heavy || x.gzip && x.state == awaitBody
}

// Room takes room for a piece of the answer's body, if the whole body is needed. It is called before ResponseBody,
// which fails without room. It returns the number of bytes that AwaitRoom must wait for, or 0.
func (x *Exchange) Room(piece int) (wanting int64) {
	d := &x.duplex
	need := int64(piece)
	switch {
	case d.over, x.state != inUnary && x.state != inJudged:
		return 0
	case d.whole:
		need = min(max(need+int64(len(d.body)), d.size), maxAnswer)
	}
	if need *= copies; need <= inflight.Small || x.c.Env.Bytes == nil {
		return 0
	}
	if d.size == 0 { // few steps, because each may have to wait
		need = (need + leastGrowth - 1) / leastGrowth * leastGrowth
	}
	if x.room.Grow(x.c.Env.Bytes, x.c.Record.Key, need) == nil {
		return 0
	}
	return need
}

// AwaitRoom waits until there is room for so many bytes.
func (x *Exchange) AwaitRoom(ctx context.Context, need int64) {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	if x.room.Wait(ctx, x.c.Env.Bytes, x.c.Record.Key, need) != nil && ctx.Err() != nil {
		x.c.Shed(shedTotal)
		x.noRoom = true
	}
}

// gunzip decompresses a body, and takes room as it grows.
func (x *Exchange) gunzip(body []byte) ([]byte, *openai.Error) {
	bad := openai.CodeInvalidEncoding.New(
		"The body is not the gzip data that its content-encoding says.")
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, bad
	}
	most := min(maxPlain, max(freePlain, maxRatio*len(body)))
	plain := make([]byte, 0, min(most+1, 8*len(body)+512))
	for {
		if e := x.hold(int64(len(body) + cap(plain))); e != nil {
			return nil, e
		}
		for err = nil; err == nil && len(plain) < cap(plain); {
			var n int
			n, err = z.Read(plain[len(plain):cap(plain)])
			plain = plain[:len(plain)+n]
		}
		switch ended := errors.Is(err, io.EOF); {
		case ended && len(plain) <= most:
			return plain, nil
		case err != nil && !ended:
			return nil, bad
		case len(plain) > most:
			return nil, openai.CodeRequestTooLarge.New("Request body too large: one of %d compressed bytes may become %d at most.", len(body), most)
		}
		plain = append(make([]byte, 0, min(2*cap(plain), most+1)), plain...)
	}
}

// announcedAnswer returns the announced length of an answer, or 0 if it is unknown or too large to hold.
func announcedAnswer(h Headers) int64 {
	if n, ok := lengthOf(h); ok && n > 0 && n <= maxAnswer {
		return n
	}
	return 0
}

// lengthOf returns the announced length of a body, in bytes.
func lengthOf(h Headers) (n int64, ok bool) {
	text := h.Get("content-length")
	if text == "" { // an error of strconv would allocate
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
