package exchange

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inflight"
)

const (
	// maxPlain bounds a body that was sent compressed: it must not grow beyond what could have been sent as it is.
	maxPlain = 32 << 20
	// maxRatio bounds how many times its size such a body becomes, where that is more than freePlain bytes: text and JSON
	// become some 5 to 20 times as large, and what repeats one byte a thousand times.
	maxRatio  = 100
	freePlain = 1 << 20
	// copies is how often a body is held, as it came and translated.
	copies = 2
	// roomTimeout is how long an answer waits for room to be held in. Envoy does not read on meanwhile.
	roomTimeout = 30 * time.Second
	// leastGrowth is how much room an answer takes at once whose length is not known.
	leastGrowth = 1 << 20
)

// Reasons for which a request is refused that the process could not hold. They are labels of a metric.
const (
	shedMemory = "memory"
	shedTotal  = "bytes"
	shedKey    = "key_bytes"
)

var errNoRoom = &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer,
	Code:    openai.CodeServerIsOverloaded,
	Message: "The gateway holds as many answers as it can at the moment. The provider's answer is lost."}

// spared refuses a request where the process has no memory left.
func (x *Exchange) spared() *openai.Error {
	if x.env.Shedding == nil || !x.env.Shedding() {
		return nil
	}
	x.shed(shedMemory)
	return crowdedOut("The gateway has no memory left for another request at the moment. Please try again later.")
}

func crowdedOut(message string) *openai.Error {
	return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer,
		Code: openai.CodeServerIsOverloaded, Message: message, RetryAfter: time.Second}
}

func (x *Exchange) shed(why string) {
	if x.env.Observer != nil {
		x.env.Observer.Shed(why)
	}
}

// announced takes room for a body whose headers say how long it is.
func (x *Exchange) announced(h Headers) *openai.Error {
	if n, ok := lengthOf(h); ok {
		return x.hold(n)
	}
	return nil // it is taken when the body is there
}

// hold takes room for bytes of the request's body in all, or returns why there is none.
func (x *Exchange) hold(bytes int64) *openai.Error {
	switch err := x.room.Grow(x.env.Bytes, x.record.KeyID, copies*bytes); {
	case errors.Is(err, inflight.ErrKey):
		x.shed(shedKey)
		return &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeRequests,
			Code: openai.CodeRateLimitExceeded, RetryAfter: time.Second,
			Message: fmt.Sprintf("The requests of the key %s that run hold as many bytes as a key may have under way. Please try again when one of them has ended.", x.record.KeyID)}
	case err != nil:
		x.shed(shedTotal)
		return crowdedOut("The gateway holds as many bytes of requests as it can at the moment. Please try again later.")
	}
	return nil
}

// heavy is the size of a body in bytes from which on it is not read while other exchanges wait.
const heavy = 64 << 10

// IsHeavy reports whether a piece of a body of so many bytes, with what is held of the body, is that large, or may
// become it.
func (x *Exchange) IsHeavy(piece int) bool {
	return piece+len(x.duplex.body) > heavy || x.gzip && x.state == awaitBody
}

// Room takes room for a piece of the answer's body, if the body is needed whole. It is called before ResponseBody,
// which fails without room. It returns the bytes that AwaitRoom is to wait for, or 0.
func (x *Exchange) Room(piece int) (wanting int64) {
	d := &x.duplex
	need := int64(piece)
	switch {
	case d.over, x.state != inUnary:
		return 0
	case d.whole:
		need = min(max(need+int64(len(d.body)), d.size), maxAnswer)
	}
	if need *= copies; need <= inflight.Small || x.env.Bytes == nil {
		return 0
	}
	if d.size == 0 { // few steps, each of which may have to wait
		need = (need + leastGrowth - 1) / leastGrowth * leastGrowth
	}
	if x.room.Grow(x.env.Bytes, x.record.KeyID, need) == nil {
		return 0
	}
	return need
}

// AwaitRoom waits until there is room for so many bytes.
func (x *Exchange) AwaitRoom(ctx context.Context, need int64) {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	if x.room.Wait(ctx, x.env.Bytes, x.record.KeyID, need) != nil && ctx.Err() != nil {
		x.shed(shedTotal)
		x.noRoom = true
	}
}

// gunzip returns a body that was sent compressed as it is, which takes room as it grows.
func (x *Exchange) gunzip(body []byte) ([]byte, *openai.Error) {
	bad := openai.BadRequest("", openai.CodeInvalidEncoding,
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
			return nil, &openai.Error{Status: http.StatusRequestEntityTooLarge, Type: openai.TypeInvalidRequest,
				Code:    openai.CodeRequestTooLarge,
				Message: fmt.Sprintf("Request body too large: one of %d compressed bytes may become %d at most.", len(body), most)}
		}
		plain = append(make([]byte, 0, min(2*cap(plain), most+1)), plain...)
	}
}

// announcedAnswer returns how long an answer says it is, as far as it may be held.
func announcedAnswer(h Headers) int64 {
	if n, ok := lengthOf(h); ok && n > 0 && n <= maxAnswer {
		return n
	}
	return 0
}

// lengthOf returns the length of a body that its headers announce, in bytes.
func lengthOf(h Headers) (n int64, ok bool) {
	text := h.Get("content-length")
	if text == "" { // an error of strconv's would take memory
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
