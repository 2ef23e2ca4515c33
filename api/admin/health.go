package admin

import (
	"fmt"
	"time"
)

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
	return h.Word()
}

// Word is the state in a word or a few, for people.
func (h *ProviderHealth) Word() string {
	switch h.State {
	case ProviderUntried:
		return "not asked yet"
	case ProviderUnused:
		return "not asked in 24 hours"
	}
	return h.State
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
