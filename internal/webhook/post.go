package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

// Outcomes of posts, in metrics and logs.
const (
	Delivered   = "delivered"
	Refused     = "refused"     // a status other than 2xx
	Gone        = "gone"        // 410: the receiver does not want such messages any more
	Blocked     = "blocked"     // the address is not allowed
	TimedOut    = "timeout"     // no answer in time
	Unreachable = "unreachable" // no connection, or it broke
	Unsigned    = "unsigned"    // the secret or the URL of the webhook is invalid
)

// A Result is what came of a post.
type Result struct {
	Outcome string
	Status  int           // of the answer; may be 0
	After   time.Duration // the receiver's retry-after
}

// Says describes the receiver's answer for people, without its address. Flag is the name of the flag that
// allows private networks.
func (r Result) Says(flag string) string {
	switch r.Outcome {
	case Delivered:
		return "it has taken the message"
	case Refused, Gone:
		return fmt.Sprintf("it answered with status %d", r.Status)
	case Blocked:
		return "its address is not allowed (" + flag + ")"
	case TimedOut:
		return "it did not answer in time"
	case Unsigned:
		return "its URL or its secret is invalid"
	}
	return "it cannot be reached"
}

// Pause returns the pause after so many failed attempts, the one of its number or the last. It is up to a fifth
// longer, so that not all are tried again together. It is no shorter than the receiver's retry-after, up to a bound.
func Pause(pauses []time.Duration, failed int, after, most time.Duration) time.Duration {
	pause := pauses[min(max(failed, 1), len(pauses))-1]
	return max(pause+rand.N(pause/5), min(after, most))
}

// Event returns the body of a message about an event, which is the same at each attempt.
func Event(id string, at int64, name string, data any) ([]byte, error) {
	return json.Marshal(struct {
		ID        string `json:"id"`
		Object    string `json:"object"`
		CreatedAt int64  `json:"created_at"`
		Type      string `json:"type"`
		Data      any    `json:"data"`
	}{id, "event", at, name, data})
}

// A Message is a JSON body. With a secret it is signed, and ID identifies it over all attempts.
type Message struct {
	ID     string
	Body   []byte
	Secret string
	Signed bool
}

// maxBody bounds the bytes that are read of an answer, which are ignored.
const maxBody = 4 << 10

// Post makes one attempt to post a message.
func (c *Client) Post(ctx context.Context, url string, m Message, now time.Time) Result {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.Body))
	if err != nil {
		return Result{Outcome: Unsigned}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Modelgate-Webhooks")
	if m.Signed {
		if err := sign(r.Header, m, now); err != nil {
			return Result{Outcome: Unsigned}
		}
	}
	answer, err := c.of(r.URL.Scheme).Do(r)
	if err != nil {
		return Result{Outcome: Reason(err)}
	}
	defer func() { _ = answer.Body.Close() }() // the body is ignored
	_, _ = io.CopyN(io.Discard, answer.Body, maxBody)
	o := Result{Outcome: Refused, Status: answer.StatusCode, After: provider.RetryAfter(answer.Header)}
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode <= 299:
		o.Outcome = Delivered
	case answer.StatusCode == http.StatusGone:
		o.Outcome = Gone
	}
	return o
}

// sign adds the headers that prove to the receiver that a message is ours, and not a replay.
func sign(h http.Header, m Message, now time.Time) error {
	if err := configv1.CheckWebhookSecret(m.Secret); err != nil { // an empty secret would sign too
		return err
	}
	w, err := standardwebhooks.NewWebhook(m.Secret)
	if err != nil {
		return err
	}
	signature, err := w.Sign(m.ID, now, m.Body)
	if err != nil {
		return err
	}
	h.Set(standardwebhooks.HeaderWebhookID, m.ID)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

// Reason describes why there was no answer, without the address, which may be secret.
func Reason(err error) string {
	var late net.Error
	switch {
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.Is(err, ssrf.ErrProhibitedNetwork):
		return Blocked
	case errors.As(err, &late) && late.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return Unreachable
}
