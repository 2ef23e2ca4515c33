// Package room takes room for the bodies of requests and answers, and refuses what there is no room for.
package room

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
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

type memory struct{ *call.Call }

// Memory returns the filter that refuses requests if the process lacks memory.
func Memory(a *account.Account) call.Filter { return memory{a.Call} }

// Request implements call.Filter.
func (f memory) Request(context.Context) *call.Reply {
	if f.Env.Shedding == nil || !f.Env.Shedding() {
		return nil
	}
	f.Shed(shedMemory)
	return f.Refuse(call.OverCapacity("The gateway has no memory left for another request at the moment. Please try again later."), "mg_no_memory")
}

type announced struct{ *call.Call }

// Announced returns the filter that takes room for a body of the announced length. Otherwise it is taken when the body
// is complete.
func Announced(a *account.Account) call.Filter { return announced{a.Call} }

// Request implements call.Filter.
func (f announced) Request(context.Context) *call.Reply {
	if n, ok := call.LengthOf(f.Headers); ok {
		return Request(f.Call, n)
	}
	return nil
}

// Request takes room for the request's body up to a total of bytes, or returns the refusal.
func Request(c *call.Call, bytes int64) *call.Reply {
	e := grow(c, bytes)
	if e == nil {
		return nil
	}
	return c.Refuse(e, "mg_no_room")
}

func grow(c *call.Call, bytes int64) *openai.Error {
	switch err := c.Hold.Grow(c.Env.Bytes, c.Record.Key, copies*bytes); {
	case errors.Is(err, inflight.ErrKey):
		c.Shed(shedKey)
		return openai.CodeRateLimitExceeded.New("The requests of the key %s that run hold as many bytes as a key may have under way. Please try again when one of them has ended.", c.Record.Key).After(time.Second)
	case err != nil:
		c.Shed(shedTotal)
		return call.OverCapacity("The gateway holds as many bytes of requests as it can at the moment. Please try again later.")
	}
	return nil
}

// Gunzip decompresses a body, and takes room as it grows.
func Gunzip(c *call.Call, body []byte) ([]byte, *openai.Error) {
	bad := openai.CodeInvalidEncoding.New(
		"The body is not the gzip data that its content-encoding says.")
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, bad
	}
	most := min(maxPlain, max(freePlain, maxRatio*len(body)))
	plain := make([]byte, 0, min(most+1, 8*len(body)+512))
	for {
		if e := grow(c, int64(len(body)+cap(plain))); e != nil {
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

// Answer takes room for an answer up to a total of bytes. Announced is how many are announced; 0: none are. It returns
// what Await must wait for, or 0.
func Answer(c *call.Call, bytes, announced int64) (wanting int64) {
	need := copies * bytes
	if need <= inflight.Small || c.Env.Bytes == nil {
		return 0
	}
	if announced == 0 { // few steps, because each may have to wait
		need = (need + leastGrowth - 1) / leastGrowth * leastGrowth
	}
	if c.Hold.Grow(c.Env.Bytes, c.Record.Key, need) == nil {
		return 0
	}
	return need
}

// Await waits until there is room for so many bytes.
func Await(ctx context.Context, c *call.Call, need int64) {
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	if c.Hold.Wait(ctx, c.Env.Bytes, c.Record.Key, need) != nil && ctx.Err() != nil {
		c.Shed(shedTotal)
		c.NoRoom = true
	}
}
