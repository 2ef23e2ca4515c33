package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/controlplane/firststart"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/usage"
)

func checkRefused(p *patient) []Finding {
	var found []Finding
	for _, kind := range configv1.Kinds() {
		for _, i := range p.items[kind.Name] {
			if i.Status.Error == "" || kind.Name == "Provider" { // checkCredentials looks at those
				continue
			}
			found = append(found, Finding{Severity: Error, What: fmt.Sprintf("%s %s has no effect: %s", kind.Name, i.Name,
				i.Status.Error),
				Why:  "Its last good version stays in force, if there was one.",
				Mend: fmt.Sprintf("modelgate config get %s %s, then config apply", strings.ToLower(kind.Name), i.Name)})
		}
	}
	return found
}

func checkProviders(p *patient) []Finding {
	if p.store != nil || p.connect != nil {
		return nil
	}
	var enabled []string
	for _, o := range objects[*configv1.Provider](p) {
		if !o.GetDisabled() && o.GetVendor() != firststart.Echo {
			enabled = append(enabled, o.GetName())
		}
	}
	if len(enabled) > 0 {
		return nil
	}
	return []Finding{{Severity: Warning, What: "No model provider is enabled except the built-in echo provider.",
		Why:  "Clients get no model responses.",
		Mend: "modelgate config apply -f provider.yaml (docs/providers.md has an example for each vendor)"}}
}

// checkCredentials looks at providers that have no effect, most often for their credential, and at those without one.
func checkCredentials(p *patient) []Finding {
	var found []Finding
	for _, i := range p.items["Provider"] {
		if i.Status.Error != "" {
			found = append(found, Finding{Severity: Error, What: fmt.Sprintf("Provider %s has no effect: %s", i.Name,
				i.Status.Error),
				Why: "Requests for it fail, or use the last credential.", Mend: mendCredential(i.Object, i.Status.Error)})
			continue
		}
		o, ok := i.Object.(*configv1.Provider)
		if !ok || o.GetDisabled() || o.GetCredential() != nil || o.GetEndpoint() != "" {
			continue // what is at an endpoint of its own may need none
		}
		if vendor := all.Providers()[o.GetVendor()]; vendor.CredentialEnv != "" {
			found = append(found, Finding{Severity: Error, What: fmt.Sprintf("Provider %s has no credential.", i.Name),
				Why:  "The vendor refuses every request.",
				Mend: fmt.Sprintf("Add this to it: credential: {env: %s}, then modelgate config apply", vendor.CredentialEnv)})
		}
	}
	return found
}

func mendCredential(o configv1.Object, problem string) string {
	if strings.Contains(problem, "--credential-") {
		return "Start the control plane with the flag that the error names, if the credential is for that host, or give the credential as value"
	}
	provider, _ := o.(*configv1.Provider)
	switch source := provider.GetCredential().GetSource().(type) {
	case *configv1.Credential_Env:
		return "Set the variable " + source.Env +
			" for the control plane and restart it, or give the credential as value"
	case *configv1.Credential_File:
		return "Let the control plane read the file: " + admincli.ShellQuote(source.File)
	case *configv1.Credential_Vault:
		return fmt.Sprintf("Put a text into the field %s of %s in Vault, and let the control plane read it (docs/secrets.md)",
			source.Vault.GetField(), source.Vault.GetPath())
	case *configv1.Credential_SecretManager:
		return fmt.Sprintf("Let the control plane's identity in the cloud read %s (docs/secrets.md)",
			source.SecretManager.GetName())
	case *configv1.Credential_WorkloadIdentity:
		return "Give the control plane an identity in the cloud that may use the models (docs/secrets.md)"
	}
	return "modelgate config get provider NAME, then config apply"
}

func checkProviderTests(p *patient) []Finding {
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		if t := p.tests[name]; !t.OK {
			found = append(found, Finding{Severity: Error, What: fmt.Sprintf("Provider %s does not respond correctly: %s",
				name, t.Message),
				Why:  "Requests for it fail, or go to other targets.",
				Mend: "Check its credential and endpoint: modelgate config get provider " + name})
		}
	}
	return found
}

// notAsked begins what is said of providers that nobody has asked.
const notAsked = "Not asked yet: "

// checkProviderHealth looks at providers that mostly answer. Those that do not are incidents.
func checkProviderHealth(p *patient) []Finding {
	var found []Finding
	var untried []string
	disabled := map[string]bool{}
	for _, o := range objects[*configv1.Provider](p) {
		disabled[o.GetName()] = o.GetDisabled()
	}
	for _, h := range p.health {
		if h.Deleted || disabled[h.Provider] {
			continue
		}
		if _, asked := p.tests[h.Provider]; h.State == adminapi.ProviderUntried && !asked {
			untried = append(untried, h.Provider)
		}
		if h.State != adminapi.ProviderDegraded {
			continue
		}
		f := Finding{Severity: Warning, What: fmt.Sprintf("Provider %s is %s.", h.Provider, h.Says()),
			Why:  "Some requests for it fail, or are answered later by other targets.",
			Mend: "Check its credential and endpoint: modelgate config get provider " + h.Provider}
		if h.Last15Minutes.RateLimited*2 > h.Last15Minutes.Failed {
			f.Mend = "Raise the rate limit at the vendor, or give the models more targets"
		}
		found = append(found, f)
	}
	if len(untried) > 0 {
		found = append(found, Finding{Severity: Note, What: notAsked + admincli.Some(untried) + ".",
			Why: "Whether they answer is not known.", Mend: "modelgate provider test NAME"})
	}
	return found
}

func checkModels(p *patient) []Finding {
	enabled, broken := map[string]bool{}, map[string]bool{}
	for _, i := range p.items["Provider"] {
		if o, ok := i.Object.(*configv1.Provider); ok {
			enabled[i.Name], broken[i.Name] = !o.GetDisabled(), i.Status.Error != ""
		}
	}
	var found []Finding
	for _, m := range objects[*configv1.Model](p) {
		var dead []string
		for _, t := range m.GetTargets() {
			if on, there := enabled[t.GetProvider()]; !there {
				dead = append(dead, t.GetProvider()+" (there is no such provider)")
			} else if !on {
				dead = append(dead, t.GetProvider()+" (disabled)")
			} else if broken[t.GetProvider()] {
				dead = append(dead, t.GetProvider()+" (it has an error)")
			}
		}
		f := Finding{Severity: Warning, What: fmt.Sprintf("Model %s has targets that accept no requests: %s.", m.GetName(),
			admincli.Some(dead)),
			Why: "The model has fewer fallbacks than configured.", Mend: "modelgate config get model " + m.GetName() +
				", then config apply; or enable the provider"}
		switch len(dead) {
		case 0:
			continue
		case len(m.GetTargets()):
			f.Severity, f.Why = Error, "All its requests are refused with a 503."
		}
		found = append(found, f)
	}
	return found
}

func checkPrices(p *patient) []Finding {
	var own *configv1.Catalog
	if all := objects[*configv1.Catalog](p); len(all) > 0 {
		own = all[0]
	}
	prices, vendorOf := catalog.New(own), map[string]string{}
	served := map[string]bool{} // "<provider>/<model>"
	for _, o := range objects[*configv1.Provider](p) {
		if o.GetDisabled() || o.GetVendor() == firststart.Echo {
			continue
		}
		vendorOf[o.GetName()] = o.GetVendor()
		for _, m := range o.GetModels() {
			served[o.GetName()+"/"+m] = true
		}
	}
	for _, m := range objects[*configv1.Model](p) {
		for _, t := range m.GetTargets() {
			served[t.GetProvider()+"/"+t.GetModel()] = true
		}
	}
	var without []string
	for _, name := range slices.Sorted(maps.Keys(served)) {
		provider, model, _ := strings.Cut(name, "/")
		vendor, ok := vendorOf[provider]
		if ok && usage.Compile(catalog.PriceAt(prices.Facts(vendor, model), time.Now())) == nil {
			without = append(without, name)
		}
	}
	if len(without) == 0 {
		return nil
	}
	f := Finding{Severity: Note, What: "There is no price for " + admincli.Some(without) + ".",
		Why:  "Their use costs 0 in reports.",
		Mend: "Apply a Catalog with their prices: kind: Catalog, name: default, models: [{models: [NAME], price: {input: \"0.15\", output: \"0.60\"}}]"}
	if p.hasBudgets() {
		f.Severity, f.Why = Warning, "Their use costs 0, so no budget limits it."
	}
	return []Finding{f}
}

func checkKeys(p *patient) []Finding {
	var expired, disabled []string
	for _, k := range objects[*configv1.Key](p) {
		switch e := k.GetExpiresAt(); {
		case e != nil && !e.AsTime().After(p.now):
			expired = append(expired, k.GetName())
		case k.GetDisabled():
			disabled = append(disabled, k.GetName())
		}
	}
	var found []Finding
	if len(expired) > 0 {
		found = append(found, Finding{Severity: Note, What: fmt.Sprintf("%d keys have expired: %s.", len(expired),
			admincli.Some(expired)),
			Why:  "Requests with them are refused.",
			Mend: "modelgate key revoke ID, or give it a later expires_at with config apply"})
	}
	if len(disabled) > 0 {
		found = append(found, Finding{Severity: Note, What: fmt.Sprintf("%d keys are disabled: %s.", len(disabled),
			admincli.Some(disabled)),
			Why: "Requests with them are refused.", Mend: "modelgate key enable ID, or revoke it"})
	}
	return found
}

// unusedFor is how long after it was made a key that nobody has used is reported.
const unusedFor = 30 * 24 * time.Hour

func checkUnusedKeys(p *patient) []Finding {
	var unused []string
	for _, k := range objects[*configv1.Key](p) {
		used, known := p.used[k.GetName()]
		if known && used.LastUsed == nil && p.now.Sub(k.GetCreatedAt().AsTime()) > unusedFor {
			unused = append(unused, k.GetName())
		}
	}
	if len(unused) == 0 {
		return nil
	}
	return []Finding{{Severity: Note,
		What: fmt.Sprintf("%d keys were created more than 30 days ago and never used: %s.", len(unused),
			admincli.Some(unused)),
		Why: "An unused key is only a risk.", Mend: "modelgate key revoke ID"}}
}

// checkKeyModels looks for patterns of keys that no model matches.
func checkKeyModels(p *patient) []Finding {
	if p.store != nil || p.connect != nil {
		return nil
	}
	idle := map[string][]string{} // keys, by the pattern
	known := map[string]bool{}
	for _, k := range objects[*configv1.Key](p) {
		for _, pattern := range k.GetModels() {
			matched, seen := known[pattern]
			if !seen {
				matched = p.matchesAny(pattern)
				known[pattern] = matched
			}
			if !matched {
				idle[pattern] = append(idle[pattern], k.GetName())
			}
		}
	}
	var found []Finding
	for _, pattern := range slices.Sorted(maps.Keys(idle)) {
		found = append(found, Finding{Severity: Warning,
			What: fmt.Sprintf("No model matches %q, which keys may use: %s.", pattern, admincli.Some(idle[pattern])),
			Why:  "Their requests are answered as if the model did not exist.",
			Mend: "Correct the models of the key with config apply, or add the model; modelgate config get models -o name lists all models"})
	}
	return found
}

// matchesAny reports whether a pattern of models matches a model, or what a provider may have.
func (p *patient) matchesAny(pattern string) bool {
	for _, m := range objects[*configv1.Model](p) {
		if configv1.Matches(pattern, m.GetName()) {
			return true
		}
	}
	head, _, slash := strings.Cut(pattern, "/")
	for _, o := range objects[*configv1.Provider](p) {
		if slices.ContainsFunc(o.GetModels(), func(m string) bool { return configv1.Matches(pattern, o.GetName()+"/"+m) }) {
			return true
		}
		if o.AllowsUnlisted() && (slash || strings.Contains(head, "*")) && configv1.Matches(head, o.GetName()) {
			return true
		}
	}
	return false
}
