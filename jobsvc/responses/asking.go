package responses

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

const (
	// maxTries is how often a provider may fail to answer. One that says how long to wait is asked until time is over.
	maxTries = 6
	// maxWait bounds the time between two tries.
	maxWait = 5 * time.Minute
)

// answer asks the gateway for the response object, again where that may help. A *failure is why there is none.
// After any other error the response has to be made again.
func (w *worker) answer(ctx context.Context, body []byte) ([]byte, error) {
	pause := w.Limits.Backoff
	for tries := 0; ; {
		object, err := w.try(ctx, body)
		if err == nil {
			return object, nil
		}
		refused, ok := errors.AsType[*failure](err)
		switch {
		case ctx.Err() != nil:
			return nil, late
		case !ok, !refused.again:
			return nil, err
		case refused.wait == 0:
			if tries++; tries == maxTries {
				return nil, err
			}
		}
		wait := min(max(refused.wait, pause), maxWait)
		pause = min(4*pause, maxWait)
		_ = timing.Sleep(ctx, wait/2+rand.N(wait)) // the next attempt heeds its end
	}
}

// try asks once. The error says whether to ask again.
func (w *worker) try(ctx context.Context, body []byte) ([]byte, error) {
	asking, cancel := context.WithCancel(ctx) // ends the reading of a stream
	defer cancel()
	answer, err := w.Gateway.Ask(asking, gateway.Ask{Key: w.r.Value.Key, Project: w.r.Tenant.Project, Charge: w.r.ID,
		Method: http.MethodPost, Path: path, Body: body})
	if err != nil {
		return nil, unasked
	}
	defer func() { _ = answer.Body.Close() }() // it was read as far as it matters
	if answer.StatusCode != http.StatusOK {
		return nil, refusal(answer)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), typeEvents) {
		return w.listen(asking, answer.Body)
	}
	object, err := memory.ReadAll(ctx, answer.Body, answer.ContentLength, maxAnswer, answerCopies, true)
	switch {
	case memory.Refused(err):
		return nil, crowded
	case err != nil:
		return nil, cut
	case len(object) > maxAnswer || !jsonwalk.Valid(object) || !gjson.ParseBytes(object).IsObject():
		return nil, unread
	}
	return object, nil
}

// refusal reads an error, and says whether to ask again.
func refusal(answer *http.Response) *failure {
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes)) // what is missing is not said
	said := gjson.GetBytes(body, "error")
	f := &failure{code: cmp.Or(said.Get("code").Str, serverError), message: said.Get("message").Str,
		wait: provider.RetryAfter(answer.Header)}
	f.again = answer.Header.Get("X-Should-Retry") != "false" && f.code != string(openai.CodeInsufficientQuota) &&
		(answer.StatusCode >= http.StatusInternalServerError || slices.Contains([]int{http.StatusRequestTimeout,
			http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests}, answer.StatusCode))
	return f
}

// A piece is the events that one read has completed.
type piece struct {
	events []event
	err    error
}

type event struct {
	name string
	data []byte
}

// listen logs the events of a stream, and returns the object of the last one. If clients have got a part of an
// answer, it is not asked for again.
func (w *worker) listen(ctx context.Context, body io.Reader) ([]byte, error) {
	pieces := make(chan piece)
	go read(ctx, body, pieces)
	began := time.Now()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			if err := w.flush(ctx); err != nil {
				return nil, err
			}
			continue
		case p := <-pieces:
			if len(w.events) == 0 {
				timer.Reset(max(w.Limits.Flush, time.Since(began)/50)) // documents are few, also in an hour
			}
			object, err := w.log(p.events)
			if object == nil && err == nil && p.err == nil {
				continue
			}
			if err == nil && object == nil {
				w.Log.Warn("a stream of a background response broke", zap.String("response", w.r.ID), zap.Error(p.err))
				err = cut
			}
			return object, errors.Join(w.flush(ctx), err)
		}
	}
}

// read reads events until a stream ends or nobody wants them.
func read(ctx context.Context, body io.Reader, to chan<- piece) {
	r := newReader(body)
	for {
		var p piece
		p.err = r.each(func(name string, data []byte) {
			p.events = append(p.events, event{name, slices.Clone(data)})
		})
		select {
		case to <- p:
		case <-ctx.Done():
			return
		}
		if p.err != nil {
			return
		}
	}
}

// log takes events, with numbers of their own. It returns the object of the last one, which followers get from the
// record.
func (w *worker) log(events []event) ([]byte, error) {
	for _, e := range events {
		object := []byte(gjson.GetBytes(e.data, "response").Raw)
		switch {
		case isLast(e.name):
			w.held.Owe(answerCopies * int64(len(object)))
			return object, nil
		case e.name == "error":
			return nil, &failure{code: gjson.GetBytes(e.data, "code").Str, message: gjson.GetBytes(e.data, "message").Str}
		case e.name == "response.created", e.name == "response.queued":
			continue
		case hasResponse(e.name):
			e.data = spliced(e.data, "response", w.turn.own(object))
		}
		e.data = spliced(e.data, "sequence_number", strconv.AppendInt(nil, w.next, 10))
		w.events = appendEvent(w.events, e.name, e.data)
		w.next++
	}
	return nil, nil
}

// flush writes the events that came since the last time.
func (w *worker) flush(ctx context.Context) error {
	if len(w.events) == 0 {
		return nil
	}
	log := &w.r.Value.Log
	if err := w.vault.write(ctx, w.turn.sealer, folderOf(w.r)+log.document(len(log.Parts)), w.events); err != nil {
		return err
	}
	log.Parts, log.Next = append(log.Parts, w.first), w.next
	w.events, w.first = nil, w.next
	return w.update(ctx)
}
