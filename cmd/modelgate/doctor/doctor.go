// Package doctor examines a gateway, its data folder and its data plane, and reports what is wrong, why that matters
// and how to fix it.
//
// A check does no I/O. Its input is collected first, so that each check can be tested with invented input.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A Severity is how bad a finding is.
type Severity string

// Severities, the worst first.
const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // something will not work, or does not do what it looks like
	Note    Severity = "note"    // worth knowing
)

// A Finding is something that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	What     string   `json:"what"`
	Why      string   `json:"why"`  // it matters
	Mend     string   `json:"mend"` // a command, or what else to do
}

// A check looks at one thing. It does no I/O: what it looks at has been gathered before.
type check struct {
	name string
	look func(*patient) []Finding
}

// checks are all checks, in the order in which they are reported within a severity.
func checks() []check {
	return []check{
		{"gateway", checkReachable},
		{"ready", checkReady},
		{"store", checkStore},
		{"besides", checkSays},
		{"ledger", checkLedger},
		{"spool", checkSpool},
		{"clock", checkClock},
		{"certificate", checkGatewayCertificate},
		{"certificates", checkCertificates},
		{"permissions", checkPermissions},
		{"disk", checkDisk},
		{"envoy", checkEnvoy},
		{"data plane", checkDataPlane},
		{"versions", checkVersions},
		{"job service", checkJobs},
		{"refused objects", checkRefused},
		{"providers", checkProviders},
		{"credentials", checkCredentials},
		{"provider tests", checkProviderTests},
		{"provider health", checkProviderHealth},
		{"incidents", checkIncidents},
		{"models", checkModels},
		{"prices", checkPrices},
		{"keys", checkKeys},
		{"unused keys", checkUnusedKeys},
		{"key models", checkKeyModels},
		{"empty limits", checkEmptyLimits},
		{"limits", checkLimits},
		{"rate limits", checkRateLimits},
		{"quotas", checkQuotas},
		{"alerts", checkReceivers},
		{"sign-in", checkSignIn},
		{"leavers", checkLeavers},
	}
}

// examine runs all checks and returns what they find, the worst first.
func examine(p *patient) []Finding {
	found := []Finding{}
	for _, c := range checks() {
		for _, f := range c.look(p) {
			f.Check = c.name
			found = append(found, f)
		}
	}
	order := []Severity{Error, Warning, Note}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	return found
}

// Table prints findings, those that are notes where they are asked for.
func Table(out *strings.Builder, found []Finding, notes bool) {
	hidden, shown, unknown := 0, 0, ""
	for _, f := range found {
		if f.Severity == Note && !notes {
			if hidden++; strings.HasPrefix(f.What, notAsked) {
				unknown = f.What + " "
			}
			continue
		}
		shown++
		fmt.Fprintf(out, "%-8s %s\n         %s\n         -> %s\n\n", f.Severity, adminapi.OneLine(f.What),
			adminapi.OneLine(f.Why), adminapi.OneLine(f.Mend))
	}
	last := "That is all."
	switch {
	case shown == 0 && hidden == 0:
		last = "Nothing is wrong."
	case hidden > 0:
		last = fmt.Sprintf("%d notes are not shown; --all shows them.", hidden)
	}
	fmt.Fprintln(out, unknown+last)
}
