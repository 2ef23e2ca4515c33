// Package contentcheck asks services to judge texts: OpenAI's moderation API, a chat model, Azure AI Content Safety, a
// guardrail of Amazon Bedrock, Presidio, or a service of the operator's. It decides nothing: rules say what is found.
//
// The services are unavailable now and then. Every call has a time limit, and its failure is a result.
package contentcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/textservice"
)

const (
	// maxText is how much of a request a checker gets, in bytes. A larger one is not judged.
	maxText = 256 << 10
	// maxAnswer bounds the answer of a checker, in bytes.
	maxAnswer = 1 << 20
	// maxCalls bounds the calls of one checker that are under way.
	maxCalls = 256
	// maxAsked is how many checkers are asked at once about one request.
	maxAsked = 8
	// maxIdle is how many connections to a checker are kept.
	maxIdle = 64
	// quiet is how long nothing more is logged of a checker that has failed.
	quiet = 10 * time.Second
)

// A Verdict is a checker's judgement of texts.
type Verdict struct {
	Flagged bool
	// Flags are the categories that the checker flags, and Scores what it thinks of all.
	Flags  map[string]bool
	Scores map[string]float64
	// Matches are the parts of the texts that it has found, if it says so.
	Matches []Match
}

// A Match is a part of a text that a checker has found.
type Match struct {
	Text, Category string
	Score          float64 // 0: that of the category, if it has one
}

// Finds reports whether a rule with categories and a threshold finds something. What the checker has not scored is
// found if the checker flags it.
func (v *Verdict) Finds(categories []string, threshold float64) bool {
	if len(categories) == 0 {
		if threshold == 0 || len(v.Scores) == 0 {
			return v.Flagged
		}
		categories = slices.Collect(maps.Keys(v.Scores))
	}
	return slices.ContainsFunc(categories, func(c string) bool {
		if score, scored := v.Scores[c]; scored && threshold > 0 {
			return score >= threshold
		}
		return v.Flags[c]
	})
}

// Found returns the matches of a rule with categories and a threshold.
func (v *Verdict) Found(categories []string, threshold float64) []Match {
	return slices.DeleteFunc(slices.Clone(v.Matches), func(m Match) bool {
		score, scored := m.Score, true
		if score == 0 {
			score, scored = v.Scores[m.Category]
		}
		return len(categories) > 0 && !slices.Contains(categories, m.Category) || scored && score < threshold
	})
}

// A Call is one request to checkers.
type Call struct {
	ID     string // of the request
	Texts  []string
	Answer bool // the texts come from an answer
	// A webhook gets the subject and the model.
	request.Subject
	Model string
}

// Checkers are the checkers of a configuration, by name. They are safe for concurrent use.
type Checkers map[string]*Checker

// A Checker is a service.
type Checker struct {
	config *configv1.Checker
	client *http.Client
	calls  *semaphore.Weighted
	logged atomic.Int64 // when a failure was last logged, in Unix nanoseconds
	log    *zap.Logger
}

// New returns the checkers of a configuration. Those that have not changed stay, with their connections.
func New(configs []*configv1.Checker, before Checkers, log *zap.Logger) (Checkers, error) {
	if len(configs) == 0 {
		return nil, nil
	}
	all := Checkers{}
	for _, c := range configs {
		if was := before[c.GetName()]; was != nil && proto.Equal(was.config, c) {
			all[c.GetName()] = was
			continue
		}
		client, err := textservice.New(c.GetCa(), maxIdle)
		if err != nil {
			return nil, fmt.Errorf("Checker %s: %w", c.GetName(), err)
		}
		all[c.GetName()] = &Checker{config: c, calls: semaphore.NewWeighted(maxCalls), log: log, client: client}
	}
	return all, nil
}

// Errors of Check.
var (
	errTooLarge = errors.New("the texts are too large for a checker")
	errUnknown  = errors.New("there is no such checker, or its credential is not known")
	errReading  = errors.New("its answer cannot be read")
)

// Judge asks several checkers at once, and returns their verdicts by name. A checker without a verdict
// is unavailable.
func (all Checkers) Judge(ctx context.Context, names []string, call *Call) map[string]*Verdict {
	verdicts := make([]*Verdict, len(names))
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for i, name := range names {
		asking.Go(safely(func() error {
			verdicts[i] = all[name].verdict(ctx, call)
			return nil
		}))
	}
	_ = asking.Wait() // who panics has no verdict
	found := map[string]*Verdict{}
	for i, name := range names {
		if verdicts[i] != nil {
			found[name] = verdicts[i]
		}
	}
	return found
}

// safely makes a panic of f, which reads what a stranger has answered, its error.
func safely(f func() error) func() error {
	return func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: %v", errReading, r)
			}
		}()
		return f()
	}
}

// verdict is Check, with a failure logged now and then.
func (c *Checker) verdict(ctx context.Context, call *Call) *Verdict {
	v, err := c.Check(ctx, call)
	if err == nil {
		return v
	}
	if c == nil || ctx.Err() != nil {
		return nil
	}
	now := time.Now().UnixNano()
	if last := c.logged.Load(); now-last > int64(quiet) && c.logged.CompareAndSwap(last, now) {
		c.log.Warn("a checker does not judge texts", zap.String("checker", c.config.GetName()), zap.Error(err))
	}
	return nil
}

// Check asks a checker. The error has no text of the request.
func (c *Checker) Check(ctx context.Context, call *Call) (*Verdict, error) {
	if c == nil {
		return nil, errUnknown
	}
	size := 0
	for _, t := range call.Texts {
		size += len(t)
	}
	switch {
	case size == 0:
		return &Verdict{}, nil
	case size > maxText:
		return nil, errTooLarge
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Patience())
	defer cancel()
	if err := c.calls.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("more than %d calls are under way: %w", maxCalls, err)
	}
	defer c.calls.Release(1)
	switch c.config.GetType() {
	case configv1.CheckerType_WEBHOOK:
		return c.webhook(ctx, call)
	case configv1.CheckerType_MODERATION:
		return c.moderation(ctx, call)
	case configv1.CheckerType_CHAT:
		return c.chat(ctx, call)
	case configv1.CheckerType_AZURE_TEXT:
		return c.azureText(ctx, call)
	case configv1.CheckerType_AZURE_SHIELD:
		return c.azureShield(ctx, call)
	case configv1.CheckerType_BEDROCK:
		return c.bedrock(ctx, call)
	case configv1.CheckerType_PRESIDIO:
		return c.presidio(ctx, call)
	}
	return nil, errUnknown
}

// post sends a body as JSON, and reads the answer into answer.
func (c *Checker) post(ctx context.Context, to string, header http.Header, body, answer any) error {
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Modelgate-Checks")
	response, err := c.client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which may have a secret
	}
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers with the status %d", response.StatusCode)
	}
	if json.Unmarshal(text, answer) != nil {
		return errReading
	}
	return nil
}

func (c *Checker) bearer() http.Header {
	h := http.Header{}
	if key := c.config.GetCredential().GetValue(); key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}

// signed returns the headers of a signed call, in the form of Standard Webhooks (https://www.standardwebhooks.com).
func (c *Checker) signed(id string, body []byte) (http.Header, error) {
	h := http.Header{}
	secret := c.config.GetCredential().GetValue()
	if secret == "" {
		return h, nil
	}
	if err := configv1.CheckWebhookSecret(secret); err != nil {
		return nil, err
	}
	w, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	signature, err := w.Sign(id, now, body)
	if err != nil {
		return nil, err
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return h, nil
}

func joined(texts []string) string { return strings.Join(texts, "\n\n") }
