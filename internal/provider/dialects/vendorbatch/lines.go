package vendorbatch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	inbound "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// Codecs translate the lines of batches. One that is nil makes its endpoint one that the vendor's batches do not have.
type Codecs struct {
	Vendor     string
	Chat       provider.ChatCodec
	Completion provider.CompletionCodec
	Embedding  provider.EmbeddingCodec
	// Alike says that answers are read alike, whatever the request was: of OpenAI's own, only the model's name changes.
	Alike bool
}

// Lines are the lines of a batch as a vendor gets them, for any vendor. They are used by one goroutine.
type Lines struct {
	batch  provider.Batch
	alike  bool
	encode func(body []byte) (Line, error)
}

// A Line is a request as a vendor gets it.
type Line struct {
	Number  int
	Model   string // as the client knows it
	Request provider.Request
	Answer  provider.Answer
}

// Lines returns a batch's. The error is an *openai.Error if the vendor runs no batches of the endpoint.
func (c Codecs) Lines(b provider.Batch) (*Lines, error) {
	l := &Lines{batch: b, alike: c.Alike}
	switch {
	case b.Endpoint == "/v1/chat/completions" && c.Chat != nil:
		l.encode = func(body []byte) (Line, error) {
			r, err := b.Carrier.ParseChatRequest(body)
			if err != nil {
				return Line{}, err
			}
			return unstreamed(r.Model, r.Stream)(c.Chat.Encode(r, b.Target))
		}
	case b.Endpoint == "/v1/completions" && c.Completion != nil:
		l.encode = func(body []byte) (Line, error) {
			r, err := openai.ParseCompletionRequest(body)
			if err != nil {
				return Line{}, err
			}
			return unstreamed(r.Model, r.Stream)(c.Completion.Encode(r, b.Target))
		}
	case b.Endpoint == "/v1/embeddings" && c.Embedding != nil:
		l.encode = func(body []byte) (Line, error) {
			r, err := openai.ParseEmbeddingRequest(body)
			if err != nil {
				return Line{}, err
			}
			return unstreamed(r.Model, false)(c.Embedding.Encode(r, b.Target))
		}
	default:
		return nil, openai.CodeUnsupportedEndpoint.On("endpoint",
			"The provider '%s' runs no batches of '%s' itself.", c.Vendor, b.Endpoint)
	}
	return l, nil
}

// Fit returns the error for a batch that is larger than the vendor takes, in lines or in bytes, or nil.
func (c Codecs) Fit(lines int, bytes int64, maxLines int, maxBytes int64) error {
	if lines <= maxLines && bytes <= maxBytes {
		return nil
	}
	return openai.CodeBatchTooLarge.New(
		"The batch has %d lines and %d bytes. The provider '%s' takes up to %d lines and %d bytes itself.",
		lines, bytes, c.Vendor, maxLines, maxBytes)
}

// unstreamed makes a Line of a codec's result, unless the request asks for a stream, which no batch has.
func unstreamed(model string, stream bool) func(provider.Request, provider.Answer, error) (Line, error) {
	return func(r provider.Request, a provider.Answer, err error) (Line, error) {
		if err == nil && stream {
			err = openai.CodeUnsupportedValue.On("stream",
				"Requests of a batch cannot be streamed. Leave out 'stream'.")
		}
		return Line{Model: model, Request: r, Answer: a}, err
	}
}

// Each passes each line that the vendor can be asked to take, in order, and the others with their error to refuse,
// which may be nil. It stops at an error of either. The line is valid until take returns.
func (l *Lines) Each(ctx context.Context, take func(Line) error, refuse func(line int, e *openai.Error) error) error {
	return l.batch.Each(ctx, func(number int, request []byte) error {
		line, err := l.encode(request)
		if e, ok := errors.AsType[*openai.Error](err); ok {
			if refuse == nil {
				return nil
			}
			return refuse(number, e)
		}
		if err != nil {
			return err
		}
		line.Number = number
		return take(line)
	})
}

// line returns one line, translated again.
func (l *Lines) line(ctx context.Context, number int) (Line, error) {
	request, err := l.batch.Request(ctx, number)
	if err != nil {
		return Line{}, err
	}
	line, err := l.encode(request)
	line.Number = number
	return line, err
}

// ID is the custom_id of a line: it tells whose batch the line is of.
func (l *Lines) ID(number int) string { return l.batch.ID + "-" + strconv.Itoa(number) }

// number returns the line that has the custom_id, or -1.
func (l *Lines) number(customID string) int {
	digits, ok := strings.CutPrefix(customID, l.batch.ID+"-")
	if !ok {
		return -1
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Owns reports whether a custom_id is one of the batch's.
func (l *Lines) Owns(customID string) bool { return l.number(customID) >= 0 }

// Results gives what has become of each line of a batch, once, to take: first those that the vendor was not asked,
// then those that it answers, in its order, and last those that it did not answer, whose Status is 0. Read reads the
// vendor's answers, and gives each to add; what is of no line of the batch, or of one that was answered already, is
// passed over.
//
// If it fails halfway, the next call gives the same lines again.
func (l *Lines) Results(ctx context.Context, take func(provider.BatchAnswer) error,
	read func(add func(LineAnswer) error) error) error {
	open := map[int]struct{}{} // lines that wait for their answer
	var shared *Line
	err := l.Each(ctx, func(line Line) error {
		open[line.Number] = struct{}{}
		if l.alike && shared == nil {
			shared = &Line{Model: strings.Clone(line.Model), Answer: line.Answer}
		}
		return nil
	}, func(line int, e *openai.Error) error { return take(failed(line, "", e)) })
	if err != nil {
		return err
	}
	err = read(func(a LineAnswer) error {
		n := l.number(a.CustomID)
		if _, waits := open[n]; !waits || a.Error == nil && a.Body == nil {
			return nil
		}
		delete(open, n)
		if a.Error != nil {
			return take(failed(n, a.RequestID, a.Error))
		}
		line := shared
		if line == nil {
			again, err := l.line(ctx, n)
			if err != nil {
				return fmt.Errorf("line %d, which the vendor has answered: %w", n, err)
			}
			line = &again
		}
		return take(decoded(line, n, a, l.batch.Carrier))
	})
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(open)) {
		if err := take(provider.BatchAnswer{Line: n}); err != nil {
			return err
		}
	}
	return nil
}

// A LineAnswer is the vendor's answer to one line: an answer, an error, or neither if it did not get to the line.
type LineAnswer struct {
	CustomID  string
	RequestID string
	Body      []byte // as the vendor answers a request
	Error     *openai.Error
	Created   int64 // when it was answered, in Unix seconds, for vendors whose answers do not say
}

func failed(line int, requestID string, e *openai.Error) provider.BatchAnswer {
	return provider.BatchAnswer{Line: line, Status: e.Status, RequestID: requestID, Body: e.AppendJSON(nil)}
}

// decoded returns OpenAI's answer for a vendor's.
func decoded(line *Line, number int, a LineAnswer, by openai.Carrier) provider.BatchAnswer {
	asked := chat.Asked{Model: line.Model, Created: a.Created, Carrier: by}
	p := pipeline.New(pipeline.Options{Answer: line.Answer, Asked: asked, Writer: inbound.NewChatDocument(asked)})
	body, err := p.Whole(context.Background(), a.Body)
	if err != nil {
		return failed(number, a.RequestID, pipeline.ClientError(err))
	}
	return provider.BatchAnswer{Line: number, Status: http.StatusOK, RequestID: a.RequestID, Body: body, Usage: p.Usage()}
}

// maxLine bounds a line of a vendor's results, in bytes.
const maxLine = 64 << 20

// ReadLines gives each line of a body that is JSON lines to take, and stops at its error. Of one that is longer than
// 64 MB it gives the beginning, with whole false, and drops the rest. A line is valid until take returns.
func ReadLines(body io.Reader, take func(line []byte, whole bool) error) error {
	r := bufio.NewReaderSize(body, 64<<10)
	var line []byte
	for whole := true; ; {
		piece, err := r.ReadSlice('\n')
		if len(line)+len(piece) <= maxLine {
			line = append(line, piece...)
		} else {
			whole = false
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("read results: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if err := take(line, whole); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, whole = line[:0], true
	}
}

// Stream sends what write writes as the body of a POST request, as it is written, and returns the answer as Client.Do
// does. What write fails with is the error then. Its context ends when nobody reads any more.
func Stream(ctx context.Context, c *provider.Client, path, contentType string,
	write func(context.Context, io.Writer) error) (*http.Response, error) {
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(writer, 64<<10)
		err := write(writing, buffered)
		if err == nil {
			err = buffered.Flush()
		}
		_ = writer.CloseWithError(err) // it never fails
		written <- err
	}()
	answer, err := c.Do(ctx, http.MethodPost, path, contentType, reader)
	cancel()
	_ = reader.Close() // which never fails
	failed := <-written
	if err != nil && (failed == nil || errors.Is(failed, io.ErrClosedPipe) || errors.Is(failed, context.Canceled)) {
		return nil, err
	}
	if failed != nil {
		if err == nil {
			_ = answer.Body.Close() // it answers a part of the body
		}
		return nil, fmt.Errorf("POST %s: %w", path, failed)
	}
	return answer, nil
}
