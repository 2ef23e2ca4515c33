package admin

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Reason says why a request ended as it did.
type Reason struct {
	// Short is a few words for lists; empty if the request was served as the client wanted.
	Short string
	// Sentence says what happened, because of what, what the client got, and what can be done.
	Sentence string
}

// A cause is what a reason is made of.
type cause struct {
	short string
	what  string // without a full stop
	do    string // empty: nothing
}

// Explain returns the reason of an exchange, as far as it knows its attempts and details. The name of the key is set
// before.
func (e *Exchange) Explain() Reason {
	c := e.refusal()
	if e.RefusedBy == "" {
		c = e.ending()
	}
	text := c.what
	if c.short != "" {
		text += e.got()
	}
	if c.do != "" {
		text += ": " + c.do
	}
	return Reason{c.short, strings.ToUpper(text[:1]) + text[1:] + "."}
}

// got says what the client got, if the request was not served.
func (e *Exchange) got() string {
	if e.Status == 0 || e.Outcome == "cancelled" {
		return ""
	}
	answer := strings.TrimSpace(strconv.Itoa(e.Status) + " " + e.ErrorCode)
	if e.Requests > 1 {
		return fmt.Sprintf(", so each of %d requests got %s", e.Requests, answer)
	}
	return ", so the client got " + answer
}

// refusal returns the cause of an exchange that the gateway has refused.
func (e *Exchange) refusal() cause {
	by := e.RefusedBy
	if limited, what, ok := strings.Cut(by, " limit "); ok {
		return cause{"limit of " + what, "the limit of " + what + " of the " + e.owner(limited) + " was reached",
			"raise the limit, or send less at once"}
	}
	if budget, ok := strings.CutPrefix(by, "budget "); ok {
		of, unit := lastWord(budget)
		return cause{"budget of the " + unit, "the budget of the " + unit + " of the " + e.owner(of) + " is spent",
			"raise the budget, or wait for the next " + unit}
	}
	if rule, ok := strings.CutPrefix(by, "guardrail "); ok {
		if e.ErrorCode == "checker_unavailable" {
			return cause{"checker unavailable", "the checker of the guardrail " + rule + " was unavailable",
				"look at the checker, or let the guardrail pass what cannot be judged"}
		}
		return cause{by, "the guardrail " + rule + " found what it blocks",
			"change the rule if it should not, or the request"}
	}
	if rule, ok := strings.CutPrefix(by, "policy "); ok {
		return cause{by, "the rule " + rule + " of a policy denied it", "change the rule if it should not, or the request"}
	}
	if model, ok := strings.CutPrefix(by, "model/"); ok {
		return cause{"model withheld", "the model " + model + " is not for this client",
			"give the key's organization or project the model, or ask for another one"}
	}
	if key, ok := strings.CutPrefix(by, "key/"); ok {
		_, what := lastWord(key)
		return e.ofKey(what)
	}
	return e.unruled()
}

// ofKey returns the cause of a refusal by what a key is or may do.
func (e *Exchange) ofKey(what string) cause {
	key := "the " + e.owner("key/"+e.Key)
	switch what {
	case "disabled", "expired", "deleted":
		do := map[string]string{"disabled": "enable it, or stop the client", "expired": "renew it, or stop the client",
			"deleted": "give the client another key, or stop it"}[what]
		return cause{"key " + what, key + " is " + what, do}
	case "models":
		return cause{"model not allowed", key + " may not use the model " + e.Model,
			"add the model to the key, or ask for another one"}
	case "endpoints":
		return cause{"endpoint not allowed", key + " may not use this endpoint", "add the endpoint to the key"}
	case "addresses":
		return cause{"address not allowed", key + " may not be used from the client's address",
			"add the address to the key, or find out who else has it"}
	}
	return cause{"key refused", key + " may not do this", ""}
}

// unruled returns the cause of a refusal that no rule has made.
func (e *Exchange) unruled() cause {
	switch {
	case e.RefusedBy == "unknown key" && e.KeyHint == "":
		return cause{"no key", "the client sent no key that the gateway can read", "give the client a key"}
	case e.RefusedBy == "unknown key":
		return cause{"unknown key …" + e.KeyHint, "nobody knows the key that ends with " + e.KeyHint,
			"give the client a key that exists, or stop it"}
	case e.RefusedBy == "gateway":
		return cause{"gateway: " + cmp.Or(e.ErrorCode, strconv.Itoa(e.Status)), "the gateway could not take the request",
			"look at the state of the gateway, and have the client try again"}
	case e.Status == 404 && e.Model != "":
		return cause{"no model " + e.Model, "there is no model " + e.Model, "correct the name, or add the model"}
	case e.RefusedBy == "request":
		return cause{"request: " + cmp.Or(e.ErrorCode, strconv.Itoa(e.Status)), "the request itself is wrong",
			"the client has to change it"}
	}
	return cause{e.RefusedBy, "the gateway refused it because of " + e.RefusedBy, ""}
}

// ending returns the cause of how an exchange ended that was not refused.
func (e *Exchange) ending() cause {
	at, name := "the gateway", cmp.Or(e.Provider, "gateway")
	if e.Provider != "" {
		at = "the provider " + e.Provider
	}
	switch e.Outcome {
	case "finished":
		return cause{what: e.served()}
	case "rejected":
		return cause{name + ": " + cmp.Or(e.ErrorCode, strconv.Itoa(e.Status)), at + " found the request wrong",
			"the client has to change it"}
	case "cancelled":
		return cause{"client left", "the client left after " + took(e.DurationMS) + ", before the answer of " + at +
			" was complete", ""}
	case "truncated":
		return cause{name + ": cut short", "the answer of " + at + " ended before it was complete",
			"look at the provider, and have the client try again"}
	case "gateway":
		return cause{name + ": not reached", at + " could not be reached" + e.attempted(),
			"look at the provider's address and health"}
	case "interrupted":
		return cause{"interrupted", "the connection ended after " + took(e.DurationMS) +
			", by the client, the provider or a process of the gateway that stopped", ""}
	}
	return cause{name + ": " + e.lastError(), at + " failed (" + e.lastError() + ")" + e.attempted(), e.remedy()}
}

// served says who served an exchange.
func (e *Exchange) served() string {
	switch {
	case e.Detail != nil && e.Detail.Cache != "" && e.Attempts == 0:
		kind, _, _ := strings.Cut(e.Detail.Cache, " (")
		_, name, _ := strings.Cut(kind, " ")
		return "the response cache " + name + " answered, and no provider was asked"
	case e.Provider == "":
		return "the gateway answered"
	}
	return "the provider " + e.Provider + " served it" + e.attempted()
}

// attempted says what was tried before the last attempt, if there are several.
func (e *Exchange) attempted() string {
	if e.Attempts < 2 {
		return ""
	}
	var before []string
	for _, a := range e.AttemptList[:max(len(e.AttemptList)-1, 0)] {
		before = append(before, a.Provider+" ("+statusOf(a)+")")
	}
	if len(before) == 0 {
		return fmt.Sprintf(" in attempt %d", e.Attempts)
	}
	return " after " + strings.Join(before, ", ")
}

func statusOf(a Attempt) string {
	if a.Status != 0 {
		return strconv.Itoa(a.Status)
	}
	return cmp.Or(a.Error, "failed")
}

// lastError is what the last attempt failed with.
func (e *Exchange) lastError() string {
	if n := len(e.AttemptList); n > 0 && e.AttemptList[n-1].Error != "" {
		return e.AttemptList[n-1].Error
	}
	return cmp.Or(e.ErrorCode, strconv.Itoa(e.Status))
}

// remedy says what can be done about a failure at a provider.
func (e *Exchange) remedy() string {
	status := e.Status
	if n := len(e.AttemptList); n > 0 && e.AttemptList[n-1].Status != 0 {
		status = e.AttemptList[n-1].Status
	}
	switch status {
	case 401, 403:
		return "test the provider's credential"
	case 429:
		return "raise the provider's quota, or add another target to the model"
	}
	return "look at the provider, or add another target to the model"
}

// owner names the owner of a rule: the key by its name for people.
func (e *Exchange) owner(scope string) string {
	kind, name, _ := strings.Cut(scope, "/")
	if kind == "key" && name == e.Key && e.KeyName != "" {
		name = e.KeyName
	}
	return strings.TrimSpace(kind + " " + name)
}

// lastWord cuts a text before its last word.
func lastWord(text string) (before, last string) {
	i := strings.LastIndexByte(text, ' ')
	return text[:max(i, 0)], text[i+1:]
}

func took(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
