// Package tuning has the common parts of vendors' fine-tuning: streamed uploads, the parsing of hyperparameters and
// integrations, and OpenAI's fine-tuning API, for the vendors that copy it.
//
// An error decides about a job. A 4xx of the vendor ends the job. So an error for an object that is not ready yet, or
// for a temporary misconfiguration of the gateway, must have another type.
package tuning

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// States of a job, as OpenAI names them.
const (
	Validating = "validating_files"
	Queued     = "queued"
	Running    = "running"
	Paused     = "paused"
	Succeeded  = "succeeded"
	Failed     = "failed"
	Cancelled  = "cancelled"
)

// Over reports whether nothing more will become of a job.
func Over(status string) bool {
	return status == Succeeded || status == Failed || status == Cancelled
}

// Status returns OpenAI's status for the vendor's, by a table of all that the vendor documents.
func Status(known map[string]string, status string) (string, error) {
	if s, ok := known[status]; ok {
		return s, nil
	}
	return "", fmt.Errorf("%w: a fine-tuning job has the unknown status %q", provider.ErrNotAnAnswer, status)
}

// Final reports whether an error is the vendor's last word, as package provider defines it.
func Final(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || e.Status < 400 || e.Status > 499 {
		return false
	}
	return !slices.Contains([]int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly,
		http.StatusTooManyRequests}, e.Status)
}

// HasStatus reports whether an error is the vendor's answer with that status.
func HasStatus(err error, status int) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.Status == status
}

// OfJob turns a vendor's 404 into one that speaks of a job; DecodeError takes it for one of a model.
func OfJob(err error) error {
	if !HasStatus(err, http.StatusNotFound) {
		return err
	}
	return openai.CodeFineTuneNotFound.New("The provider does not know this fine-tuning job, or no longer does.")
}

// Cancelling returns what is to be said of a cancellation that failed with err: nothing if the job is over, by
// poll.
func Cancelling(ctx context.Context, c *provider.Client, id string, err error,
	poll func(context.Context, *provider.Client, string) (provider.TuningReport, error)) error {
	if err == nil || !Final(err) && !HasStatus(err, http.StatusConflict) {
		return err
	}
	if report, failed := poll(ctx, c, id); failed == nil && Over(report.Status) {
		return nil
	}
	return OfJob(err)
}

// Unsupported is the 400 for a part of a job that the vendor has no place for.
func Unsupported(c *provider.Client, param string) *openai.Error {
	return openai.Unsupported(param, c.Config.GetName())
}

// Hyperparameters returns the method's hyperparameters under the vendor's names, which known has by OpenAI's. What is
// "auto" is left out. One that the vendor does not know is an error, unless it is "auto".
func Hyperparameters(c *provider.Client, m provider.Method, known map[string]string) (map[string]json.RawMessage,
	error) {
	out := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(m.Hyperparameters)) {
		value := m.Hyperparameters[name]
		if s := string(value); s == "" || s == "null" || s == `"auto"` {
			continue
		}
		theirs, ok := known[name]
		if !ok {
			return nil, Unsupported(c, "method."+Method(m)+".hyperparameters."+name)
		}
		out[theirs] = value
	}
	return out, nil
}

// Method returns the type of a method, which is supervised if the job does not say.
func Method(m provider.Method) string {
	if m.Type == "" {
		return "supervised"
	}
	return m.Type
}

// A Wandb is where Weights & Biases is to keep the metrics of a job.
type Wandb struct {
	Project string   `json:"project"`
	Name    string   `json:"name"`
	Entity  string   `json:"entity"`
	Tags    []string `json:"tags"`
}

// ReadWandb returns the only integration there is, or nil.
func ReadWandb(c *provider.Client, integrations json.RawMessage) (*Wandb, error) {
	var all []struct {
		Type  string `json:"type"`
		Wandb Wandb  `json:"wandb"`
	}
	if len(integrations) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(integrations, &all); err != nil {
		return nil, openai.CodeInvalidType.On("integrations",
			"Invalid type for 'integrations': expected an array of integrations.")
	}
	switch {
	case len(all) == 0:
		return nil, nil
	case all[0].Type != "wandb":
		return nil, Unsupported(c, "integrations[0].type")
	case len(all) > 1:
		return nil, Unsupported(c, "integrations[1]")
	}
	return &all[0].Wandb, nil
}

// EventID returns an id for an event that the vendor gave none: the same parts always make the same one.
func EventID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// Notice is an event from the gateway itself about a job. Each kind occurs once. The provider's names of things
// mean nothing to the client, so message has none.
func Notice(kind string, at int64, message string) provider.TuningEvent {
	return provider.TuningEvent{ID: "notice-" + kind, CreatedAt: at, Level: "warn", Type: "message", Message: message}
}

// SetText sets a member of a request, unless there is nothing to say.
func SetText(request map[string]any, name, value string) {
	if value != "" {
		request[name] = value
	}
}
