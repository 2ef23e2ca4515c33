package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A severity is how bad a finding is.
type severity string

const (
	severeError   severity = "error"   // something does not work
	severeWarning severity = "warning" // something will not work, or does not do what it looks like
	severeNote    severity = "note"    // worth knowing
)

// A finding is something that is not as it should be.
type finding struct {
	Severity severity `json:"severity"`
	Check    string   `json:"check"`
	What     string   `json:"what"`
	Why      string   `json:"why"`  // it matters
	Mend     string   `json:"mend"` // a command, or what else to do
}

// A check looks at one thing. It does no I/O: what it looks at has been gathered before.
type check struct {
	name string
	look func(*patient) []finding
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
		{"models", checkModels},
		{"prices", checkPrices},
		{"keys", checkKeys},
		{"unused keys", checkUnusedKeys},
		{"key models", checkKeyModels},
		{"empty limits", checkEmptyLimits},
		{"limits", checkLimits},
		{"rate limits", checkRateLimits},
		{"budgets", checkBudgets},
		{"quotas", checkQuotas},
	}
}

type doctorCmd struct {
	adminFlags
	outputFlags
	Test bool   `negatable:"" default:"true" help:"Ask every provider once with its credential."`
	All  bool   `help:"Report notes too in the table."`
	Host string `placeholder:"NAME" help:"Host that clients call the gateway by, to be checked against its certificate. Default: that of its URL."`
}

// Help is shown below the flags' summary.
func (doctorCmd) Help() string {
	return `It exits with 1 where it finds an error. Without a gateway that runs, it looks at what is in the data folder.

Example:
  modelgate doctor --data /var/lib/modelgate --host api.example.com`
}

// Run looks for what is wrong and prints it.
func (c doctorCmd) Run(ctx context.Context, stdout io.Writer) error {
	found := examine(gather(ctx, c))
	err := c.show(stdout, struct {
		Findings []finding `json:"findings"`
	}{found}, func(w io.Writer) error { return doctorTable(w, found, c.All) })
	if err != nil {
		return err
	}
	if slices.ContainsFunc(found, func(f finding) bool { return f.Severity == severeError }) {
		return errUnhealthy
	}
	return nil
}

// examine runs all checks and returns what they find, the worst first.
func examine(p *patient) []finding {
	found := []finding{}
	for _, c := range checks() {
		for _, f := range c.look(p) {
			f.Check = c.name
			found = append(found, f)
		}
	}
	order := []severity{severeError, severeWarning, severeNote}
	slices.SortStableFunc(found, func(a, b finding) int { return slices.Index(order, a.Severity) - slices.Index(order, b.Severity) })
	return found
}

func doctorTable(w io.Writer, found []finding, notes bool) error {
	hidden, shown := 0, 0
	for _, f := range found {
		if f.Severity == severeNote && !notes {
			hidden++
			continue
		}
		shown++
		_, err := fmt.Fprintf(w, "%-8s %s\n         %s\n         -> %s\n\n", f.Severity, oneLine(f.What), oneLine(f.Why), oneLine(f.Mend))
		if err != nil {
			return err
		}
	}
	last := "That is all."
	switch {
	case shown == 0 && hidden == 0:
		last = "Nothing is wrong."
	case hidden > 0:
		last = fmt.Sprintf("%d notes are not shown; --all shows them.", hidden)
	}
	_, err := fmt.Fprintln(w, last)
	return err
}

// some names the first few of many.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
