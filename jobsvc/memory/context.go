package memory

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
)

// base is what each request holds, whatever it asks for: its goroutines, buffers, and small objects.
const base = 64 << 10

type key struct{}

// With returns a context whose reads count for a hold.
func With(ctx context.Context, h *Hold) context.Context { return context.WithValue(ctx, key{}, h) }

// Of returns the hold of a context, or nil.
func Of(ctx context.Context) *Hold {
	h, _ := ctx.Value(key{}).(*Hold)
	return h
}

// Handle runs f with a hold for a request of a tenant, and gives back what is left of it.
func (b *Budget) Handle(r *http.Request, tenant string, f func(*http.Request) error) error {
	if b == nil {
		return f(r)
	}
	h := b.Request(tenant)
	defer h.Release()
	if err := h.Take(r.Context(), base); err != nil {
		return err
	}
	return f(r.WithContext(With(r.Context(), h)))
}

// first is the number of bytes that are read, and taken, before the size is known.
const first = 128 << 10

// ReadAll reads all, if it is at most most bytes; otherwise one byte more. Length is the announced length, or -1.
// ReadAll takes the memory of so many copies before it reads. The answers of providers are paid for.
func ReadAll(ctx context.Context, from io.Reader, length, most, copies int64, paid bool) ([]byte, error) {
	h := Of(ctx)
	take := h.Take
	if paid {
		take = h.TakePaid
	}
	size := int(min(first, most))
	if length >= 0 {
		size = int(min(length, most))
	}
	if err := take(ctx, copies*int64(size)); err != nil {
		return nil, err
	}
	text := make([]byte, 0, size+1)
	for {
		if len(text) == cap(text) { // it is longer than it was to be
			if int64(len(text)) > most {
				return text, nil
			}
			next := min(4*int64(cap(text)), most+1)
			if err := take(ctx, copies*(next-int64(cap(text)))); err != nil {
				return nil, err
			}
			text = append(make([]byte, 0, next), text...)
		}
		n, err := from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err == io.EOF {
			h.Give(copies * int64(cap(text)-1-len(text)))
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Refused reports whether an error says that there was no room.
func Refused(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && (e.Code == openai.CodeServerIsOverloaded || e.Code == openai.CodeRateLimitExceeded)
}
