package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/dialects/vendorbatch"
)

// batches are Message Batches: https://platform.claude.com/docs/en/build-with-claude/batch-processing. It implements
// provider.Batcher.
type batches struct{ codecs vendorbatch.Codecs }

func newBatches(chat provider.ChatCodec) provider.Batcher {
	return batches{vendorbatch.Codecs{Vendor: name, Chat: chat}}
}

// What a batch may be at most.
const (
	maxRequests = 100_000
	maxBytes    = 256_000_000
)

// nothing is the id of a batch without a line that the vendor could be asked. The vendor has no such batch.
const nothing = "none"

// slack is by how many seconds the vendor's clock may be behind.
const slack = 3600

// Submit implements provider.Batcher. A batch holds nothing of ours but the ids of its lines, which the vendor
// shows once it has ended. If a batch may have been created without an answer, Submit searches for it among the
// later batches of the same size. One that has ended is recognised by its ids. While one runs, Submit fails until
// it has ended. Two weaknesses remain: somebody else's batches of exactly this size delay this one, and a batch
// that the vendor lists late, or whose request is still under way, runs twice.
func (x batches) Submit(ctx context.Context, c *provider.Client, b provider.Batch) (string, error) {
	lines, err := x.codecs.Lines(b)
	if err != nil {
		return "", err
	}
	count, size := 0, int64(0)
	var betas []string
	err = write(ctx, lines, func(l vendorbatch.Line, text []byte) error {
		count++
		size += int64(len(text))
		for beta := range strings.SplitSeq(l.Request.Header.Get("Anthropic-Beta"), ",") {
			if beta != "" && !slices.Contains(betas, beta) {
				betas = append(betas, beta)
			}
		}
		return nil
	})
	if err == nil {
		err = x.codecs.Fit(count, size, maxRequests, maxBytes)
	}
	switch {
	case err != nil:
		return "", err
	case count == 0:
		return nothing, nil
	}
	slices.Sort(betas)
	c = versioned(c, strings.Join(betas, ","))
	if b.Again {
		if id, err := find(ctx, c, lines, count, b.Since); err != nil || id != "" {
			return id, err
		}
	}
	return create(ctx, c, lines)
}

// write passes each line to take, with the text of the vendor's request for it.
func write(ctx context.Context, lines *vendorbatch.Lines, take func(l vendorbatch.Line, text []byte) error) error {
	text, first := []byte{}, true
	return lines.Each(ctx, func(l vendorbatch.Line) error {
		text = text[:0]
		if !first {
			text = append(text, ',')
		}
		first = false
		text = append(openai.AppendString(append(text, `{"custom_id":`...), lines.ID(l.Number)), `,"params":`...)
		text = append(append(text, l.Request.Body...), '}')
		return take(l, text)
	}, nil)
}

func create(ctx context.Context, c *provider.Client, lines *vendorbatch.Lines) (string, error) {
	answer, err := vendorbatch.Stream(ctx, c, "/messages/batches", "application/json",
		func(ctx context.Context, w io.Writer) error {
			if _, err := io.WriteString(w, `{"requests":[`); err != nil {
				return err
			}
			err := write(ctx, lines, func(_ vendorbatch.Line, text []byte) error {
				_, err := w.Write(text)
				return err
			})
			if err != nil {
				return err
			}
			_, err = io.WriteString(w, "]}")
			return err
		})
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }() // what is wanted of it has been read
	var created batch
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&created); err != nil || created.ID == "" {
		return "", fmt.Errorf("create a message batch: %w: it has no id", provider.ErrNotAnAnswer)
	}
	return created.ID, nil
}

// A batch is the vendor's Message Batch.
type batch struct {
	ID         string    `json:"id"`
	Status     string    `json:"processing_status"` // in_progress, canceling or ended
	CreatedAt  time.Time `json:"created_at"`
	EndedAt    time.Time `json:"ended_at"`
	ResultsURL string    `json:"results_url"` // empty before the end, and where the results are not kept any more
	Counts     struct {
		Processing int `json:"processing"`
		Succeeded  int `json:"succeeded"`
		Errored    int `json:"errored"`
		Canceled   int `json:"canceled"`
		Expired    int `json:"expired"`
	} `json:"request_counts"`
}

func (b *batch) total() int {
	return b.Counts.Processing + b.Counts.Succeeded + b.Counts.Errored + b.Counts.Canceled + b.Counts.Expired
}

func (b *batch) over() bool { return b.Status == "ended" }

// errUnsure is the error of Submit where a batch that runs may be the one that is to be submitted.
var errUnsure = errors.New(
	"a batch of the same size runs at the vendor, which may be this one; whose it is shows when it has ended")

// searchPages bounds the search for a batch. A page has 1,000.
const searchPages = 100

// find returns the vendor's id of a batch, or "" if the vendor has not got it.
func find(ctx context.Context, c *provider.Client, lines *vendorbatch.Lines, count int, since int64) (string, error) {
	query, unsure := url.Values{"limit": {"1000"}}, false
	for range searchPages {
		var page struct {
			Data    []batch `json:"data"`
			HasMore bool    `json:"has_more"`
			LastID  string  `json:"last_id"`
		}
		if err := c.JSON(ctx, http.MethodGet, "/messages/batches?"+query.Encode(), nil, &page); err != nil {
			return "", err
		}
		more := page.HasMore && page.LastID != "" && page.LastID != query.Get("after_id")
		for _, b := range page.Data {
			switch {
			case b.CreatedAt.Unix() < since-slack: // newest first: what follows is older yet
				more = false
			case b.total() != count:
			case !b.over():
				unsure = true
			default:
				if ours, err := owns(ctx, c, lines, b); err != nil || ours {
					return b.ID, err
				}
			}
		}
		switch {
		case more:
			query.Set("after_id", page.LastID)
		case unsure:
			return "", errUnsure
		default:
			return "", nil
		}
	}
	return "", errors.New("look for a message batch: the provider lists too many")
}

// errSeen ends the reading of results once the first line is read.
var errSeen = errors.New("seen")

// owns reports whether a batch that has ended belongs to the lines.
func owns(ctx context.Context, c *provider.Client, lines *vendorbatch.Lines, b batch) (bool, error) {
	if b.ResultsURL == "" {
		return false, nil
	}
	answer, err := c.Do(ctx, http.MethodGet, at(b.ID)+"/results", "", nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = answer.Body.Close() }() // no more is wanted of it
	ours := false
	err = vendorbatch.ReadLines(answer.Body, func(line []byte, _ bool) error {
		ours = lines.Owns(gjson.GetBytes(line, "custom_id").Str)
		return errSeen
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return ours, err
}

func at(id string) string { return "/messages/batches/" + url.PathEscape(id) }

func get(ctx context.Context, c *provider.Client, id string) (*batch, error) {
	var b batch
	if err := c.JSON(ctx, http.MethodGet, at(id), nil, &b); err != nil {
		return nil, err
	}
	if b.Status == "" {
		return nil, fmt.Errorf("message batch %s: %w: it has no status", id, provider.ErrNotAnAnswer)
	}
	return &b, nil
}

// Poll implements provider.Batcher.
func (batches) Poll(ctx context.Context, c *provider.Client, id string) (provider.BatchReport, error) {
	if id == nothing {
		return provider.BatchReport{Over: true}, nil
	}
	b, err := get(ctx, versioned(c, ""), id)
	if err != nil {
		return provider.BatchReport{}, err
	}
	return provider.BatchReport{Over: b.over(), Completed: b.Counts.Succeeded, Failed: b.Counts.Errored}, nil
}

// Cancel implements provider.Batcher.
func (batches) Cancel(ctx context.Context, c *provider.Client, id string) error {
	if id == nothing {
		return nil
	}
	c = versioned(c, "")
	return vendorbatch.CancelUnlessOver(ctx, c, at(id)+"/cancel", func() (bool, error) {
		b, err := get(ctx, c, id)
		return err == nil && b.Status != "in_progress", err
	})
}

// Results implements provider.Batcher. It gives every line of the batch, each once; if a connection is cut, the
// next call begins anew. A batch that is not over has no answers.
func (x batches) Results(ctx context.Context, c *provider.Client, id string, b provider.Batch,
	take func(provider.BatchAnswer) error) error {
	lines, err := x.codecs.Lines(b)
	if err != nil {
		return err
	}
	c = versioned(c, "")
	return lines.Results(ctx, take, func(add func(vendorbatch.LineAnswer) error) error {
		if id == nothing {
			return nil
		}
		ended, err := get(ctx, c, id)
		if err != nil || !ended.over() {
			return err
		}
		answer, err := c.Do(ctx, http.MethodGet, at(id)+"/results", "", nil)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }() // it was read, or is not wanted any more
		return vendorbatch.ReadLines(answer.Body, func(line []byte, whole bool) error {
			a, err := lineAnswer(line, whole)
			if err != nil {
				return fmt.Errorf("message batch %s: %w", id, err)
			}
			a.Created = max(0, ended.EndedAt.Unix())
			return add(a)
		})
	})
}

// lineAnswer reads a line: {"custom_id":...,"result":{"type":"succeeded","message":{...}}}, or errored with an error,
// canceled or expired.
func lineAnswer(line []byte, whole bool) (vendorbatch.LineAnswer, error) {
	if !whole {
		return vendorbatch.TooLong(line), nil
	}
	var l struct {
		CustomID string `json:"custom_id"`
		Result   struct {
			Type    string          `json:"type"`
			Message json.RawMessage `json:"message"`
			Error   json.RawMessage `json:"error"`
		} `json:"result"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return vendorbatch.LineAnswer{}, fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	a := vendorbatch.LineAnswer{CustomID: l.CustomID}
	switch l.Result.Type {
	case "succeeded":
		a.Body = l.Result.Message
	case "errored":
		a.RequestID = gjson.GetBytes(l.Result.Error, "request_id").Str
		a.Error = messages.DecodeError(0, nil, l.Result.Error)
	}
	return a, nil
}
