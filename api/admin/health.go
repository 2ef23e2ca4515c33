package admin

import (
	"context"
	"fmt"
	"time"
)

// An Attempt is one try of an exchange at a provider.
type Attempt struct {
	// Kind is first, retry (at the provider of the attempt before) or fallback (at another).
	Kind     string `json:"kind"`
	Provider string `json:"provider"`
	// Model is the provider's own name.
	Model string `json:"model"`
	// Status of the provider's answer; 0: no answer.
	Status int `json:"status"`
	// Error is why it failed; empty if it did not.
	Error string `json:"error,omitempty"`
	// StartMS is when it began, after the exchange did.
	StartMS int64 `json:"start_ms"`
	// FirstByteMS is the time from its start to the first byte of the answer; 0 if there was none.
	FirstByteMS int64 `json:"first_byte_ms"`
	DurationMS  int64 `json:"duration_ms"`
}

// Failed reports whether the exchange counts as an error, everywhere: the gateway has accepted the request and did not
// serve it, because of the providers or of itself. A request that the client did wrong or left is none, and a refused
// request is counted apart.
func (e Exchange) Failed() bool {
	switch e.Outcome {
	case "failed", "truncated", "interrupted", "gateway":
		return true
	}
	return e.Status >= 500 && e.RefusedBy == ""
}

// States of a provider's health.
const (
	ProviderOK       = "ok"
	ProviderDegraded = "degraded"
	ProviderFailing  = "failing"
	ProviderCooling  = "cooling"
	ProviderUnused   = "unused"
)

// ProviderHealth is how the attempts at a provider went.
type ProviderHealth struct {
	Provider string `json:"provider"`
	// State is ok, degraded, failing, cooling or unused.
	State         string       `json:"state"`
	Last15Minutes HealthWindow `json:"last_15m"`
	Last24Hours   HealthWindow `json:"last_24h"`
	// CoolingUntil is until when the provider is tried last; nil if it is not cooling.
	CoolingUntil *time.Time `json:"cooling_until,omitempty"`
	// LastError is why the last attempt failed that did, in the last 24 hours.
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

// fewest attempts of a window tell whether a provider fails.
const fewest = 3

// decisive returns the window that decides about the state, and how long it is.
func (h *ProviderHealth) decisive() (w HealthWindow, during string) {
	if h.Last15Minutes.Attempts < fewest {
		return h.Last24Hours, "24 hours"
	}
	return h.Last15Minutes, "15 minutes"
}

// Says returns the state with its details, for people.
func (h *ProviderHealth) Says() string {
	switch w, during := h.decisive(); h.State {
	case ProviderFailing, ProviderDegraded:
		return fmt.Sprintf("%s: %d of %d attempts in %s failed, the last with: %s", h.State, w.Failed, w.Attempts, during,
			h.LastError)
	case ProviderCooling:
		return h.State + " until " + h.CoolingUntil.Format(time.TimeOnly) + " UTC: " + h.LastError
	}
	return h.State
}

// A HealthWindow has the attempts of a time.
type HealthWindow struct {
	Attempts int64 `json:"attempts"`
	// Failed counts the attempts that the provider did not serve: without an answer, cut, with a status of 500 or
	// above, or refused with 401, 402, 403, 408 or 429.
	Failed int64 `json:"failed"`
	// RateLimited counts the attempts in Failed with the status 429.
	RateLimited int64 `json:"rate_limited"`
	// SuccessRate is the part that did not fail, from 0 to 1; 0 without attempts.
	SuccessRate float64     `json:"success_rate"`
	FirstByte   Percentiles `json:"first_byte_ms"`
	// Duration is of attempts that did not fail.
	Duration Percentiles `json:"duration_ms"`
}

// Percentiles are times in milliseconds, right within a factor of 1.6; 0 without attempts.
type Percentiles struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	P99 int64 `json:"p99"`
}

// Health is the health of every provider.
type Health struct {
	Providers []ProviderHealth `json:"providers"`
}

// failingBelow and degradedBelow are the rates of success below which a provider is failing or degraded.
const failingBelow, degradedBelow = 0.5, 0.95

// Judge returns the state that the figures mean. The last 15 minutes decide if they have at least 3 attempts, else the
// last 24 hours: failing below a success rate of 50 %, degraded below 95 %. With fewer than 3 attempts in 24 hours, a
// provider is failing if all of them failed.
func (h *ProviderHealth) Judge() string {
	w, _ := h.decisive()
	switch {
	case h.Last24Hours.Attempts == 0 && h.Last15Minutes.Attempts == 0:
		return ProviderUnused
	case w.Attempts < fewest && w.Failed < w.Attempts:
		return ProviderOK
	case w.SuccessRate < failingBelow:
		return ProviderFailing
	case h.CoolingUntil != nil:
		return ProviderCooling
	case w.SuccessRate < degradedBelow:
		return ProviderDegraded
	}
	return ProviderOK
}

// Health returns how the attempts at each provider went.
func (c StateCalls) Health(ctx context.Context) (Health, error) {
	return get[Health](ctx, c.caller, "health")
}
