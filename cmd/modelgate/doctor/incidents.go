package doctor

import (
	"fmt"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// checkIncidents reports what the control plane judges not to be in its normal state. What other checks look at
// themselves, which know more of it, is left to them.
func checkIncidents(p *patient) (found []Finding) {
	for _, a := range p.attention {
		f := Finding{Severity: Warning, What: strings.TrimPrefix(a.Object+": "+a.Message, ": "),
			Why: "modelgate incidents has since when, and who is hit.", Mend: remedyOf(a)}
		switch a.Kind {
		case adminapi.AttentionLedger, adminapi.AttentionDataPlane, adminapi.AttentionObjectError,
			adminapi.AttentionCertificate, adminapi.AttentionJobs:
			continue
		}
		if a.Subject == "" {
			continue // it waits for a person
		}
		if a.Severity == adminapi.SeverityError && a.Kind != adminapi.AttentionBudget {
			f.Severity = Error
		}
		i := slices.IndexFunc(p.incidents, func(i adminapi.Incident) bool { return i.Subject == a.Subject })
		if i >= 0 {
			f.describe(p.incidents[i])
		}
		found = append(found, f)
	}
	return found
}

// describe makes a finding one of an incident.
func (f *Finding) describe(i adminapi.Incident) {
	f.What = i.Why
	f.Why = strings.TrimSpace(fmt.Sprintf("It hit %d requests. %s", i.Hit.Requests, i.Gateway))
	if c := i.Change; c != nil && c.Command != "" {
		f.Mend += fmt.Sprintf("; or, if the change by %s at %s is why: %s", c.Actor, c.At.UTC().Format("2006-01-02 15:04:05"),
			c.Command)
	}
}

// remedyOf says what to do about what is not in its normal state.
func remedyOf(a adminapi.Attention) string {
	_, name, _ := strings.Cut(a.Object, " ")
	switch a.Kind {
	case adminapi.AttentionCredentialRejected:
		return "Give it a credential that it accepts: modelgate config get provider " + name + ", then config apply"
	case adminapi.AttentionProviderFailing, adminapi.AttentionProviderCooling:
		return "Check its credential and endpoint: modelgate config get provider " + name
	case adminapi.AttentionModelFailing:
		return "See what its requests met: modelgate requests --outcome error --model " + name
	case adminapi.AttentionBatchStuck:
		return "See what its requests meet: modelgate batch get " + strings.TrimPrefix(a.Subject, "batch/")
	case adminapi.AttentionBudget:
		return "Wait, or raise the budget: modelgate config get KIND NAME, then config apply"
	case adminapi.AttentionLimit:
		return "Raise the limit, or have the client send less: modelgate requests --outcome rejected"
	case adminapi.AttentionKeyRefused:
		return "See who uses it, and for what: modelgate requests --outcome rejected"
	case adminapi.AttentionCheckerAway:
		return "Check the checker; the log of extproc has the error"
	}
	return "modelgate incidents, and the log of the process"
}
