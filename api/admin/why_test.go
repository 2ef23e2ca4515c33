package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/admin"
)

func TestARequestSaysWhyItEndedAsItDid(t *testing.T) {
	refused := func(status int, code, by string, change ...func(*admin.Exchange)) admin.Exchange {
		e := admin.Exchange{Key: "key_1", KeyName: "billing", Model: "fast", Status: status, Outcome: "rejected",
			ErrorCode: code, RefusedBy: by, Requests: 1}
		for _, c := range change {
			c(&e)
		}
		return e
	}
	ended := func(status int, outcome, code string, attempts ...admin.Attempt) admin.Exchange {
		e := admin.Exchange{Key: "key_1", Model: "fast", Provider: "alpha", Status: status, Outcome: outcome,
			ErrorCode: code, DurationMS: 2100, AttemptList: attempts, Attempts: max(len(attempts), 1), Requests: 1}
		if n := len(attempts); n > 0 {
			e.Provider = attempts[n-1].Provider
		}
		return e
	}
	stranger := func(hint string) func(*admin.Exchange) {
		return func(e *admin.Exchange) { e.Key, e.KeyName, e.KeyHint = "", "", hint }
	}
	for _, c := range []struct {
		e               admin.Exchange
		short, sentence string
	}{
		{refused(429, "rate_limit_exceeded", "key/key_1 limit requests per minute"), "limit of requests per minute",
			"The limit of requests per minute of the key billing was reached, so the client got 429 rate_limit_exceeded: raise the limit, or send less at once."},
		{refused(429, "rate_limit_exceeded", "organization/acme limit tokens per day"), "limit of tokens per day",
			"The limit of tokens per day of the organization acme was reached, so the client got 429 rate_limit_exceeded: raise the limit, or send less at once."},
		{refused(429, "insufficient_quota", "budget key/key_1 month"), "budget of the month",
			"The budget of the month of the key billing is spent, so the client got 429 insufficient_quota: raise the budget, or wait for the next month."},
		{refused(400, "content_blocked", "guardrail pii/email"), "guardrail pii/email",
			"The guardrail pii/email found what it blocks, so the client got 400 content_blocked: change the rule if it should not, or the request."},
		{refused(503, "checker_unavailable", "guardrail judge/any"), "checker unavailable",
			"The checker of the guardrail judge/any was unavailable, so the client got 503 checker_unavailable: look at the checker, or let the guardrail pass what cannot be judged."},
		{refused(403, "policy_denied", "policy office/tools"), "policy office/tools",
			"The rule office/tools of a policy denied it, so the client got 403 policy_denied: change the rule if it should not, or the request."},
		{refused(404, "model_not_found", "model/secret"), "model withheld",
			"The model secret is not for this client, so the client got 404 model_not_found: give the key's organization or project the model, or ask for another one."},
		{refused(401, "invalid_api_key", "key/key_1 expired"), "key expired",
			"The key billing is expired, so the client got 401 invalid_api_key: renew it, or stop the client."},
		{refused(404, "model_not_found", "key/key_1 models"), "model not allowed",
			"The key billing may not use the model fast, so the client got 404 model_not_found: add the model to the key, or ask for another one."},
		{refused(403, "ip_not_authorized", "key/key_1 addresses"), "address not allowed",
			"The key billing may not be used from the client's address, so the client got 403 ip_not_authorized: add the address to the key, or find out who else has it."},
		{refused(401, "invalid_api_key", "unknown key", stranger("9896")), "unknown key …9896",
			"Nobody knows the key that ends with 9896, so the client got 401 invalid_api_key: give the client a key that exists, or stop it."},
		{refused(401, "invalid_api_key", "unknown key", stranger(""), func(e *admin.Exchange) { e.Requests = 7 }), "no key",
			"The client sent no key that the gateway can read, so each of 7 requests got 401 invalid_api_key: give the client a key."},
		{refused(404, "model_not_found", "request"), "no model fast",
			"There is no model fast, so the client got 404 model_not_found: correct the name, or add the model."},
		{refused(400, "invalid_json", "request"), "request: invalid_json",
			"The request itself is wrong, so the client got 400 invalid_json: the client has to change it."},
		{refused(503, "overloaded", "gateway"), "gateway: overloaded",
			"The gateway could not take the request, so the client got 503 overloaded: look at the state of the gateway, and have the client try again."},
		{refused(429, "", "one of many rules"), "one of many rules",
			"The gateway refused it because of one of many rules, so the client got 429."},

		{ended(200, "finished", ""), "", "The provider alpha served it."},
		{ended(200, "finished", "", admin.Attempt{Provider: "alpha", Status: 503},
			admin.Attempt{Provider: "beta", Status: 200}), "", "The provider beta served it after alpha (503)."},
		{admin.Exchange{Provider: "response cache", Status: 200, Outcome: "finished",
			Detail: &admin.ExchangeDetail{Cache: "hit faq (3 s old, 0.1 USD saved)"}}, "",
			"The response cache faq answered, and no provider was asked."},
		{ended(400, "rejected", "context_length_exceeded"), "alpha: context_length_exceeded",
			"The provider alpha found the request wrong, so the client got 400 context_length_exceeded: the client has to change it."},
		{ended(502, "failed", "connection_error", admin.Attempt{Provider: "alpha", Error: "timeout"},
			admin.Attempt{Provider: "beta", Status: 401, Error: "refuses our credential"}), "beta: refuses our credential",
			"The provider beta failed (refuses our credential) after alpha (timeout), so the client got 502 connection_error: test the provider's credential."},
		{ended(200, "truncated", ""), "alpha: cut short",
			"The answer of the provider alpha ended before it was complete, so the client got 200: look at the provider, and have the client try again."},
		{ended(200, "cancelled", ""), "client left", "The client left after 2.1s, before the answer of the provider alpha was complete."},
		{ended(503, "gateway", ""), "alpha: not reached",
			"The provider alpha could not be reached, so the client got 503: look at the provider's address and health."},
		{ended(0, "interrupted", ""), "interrupted",
			"The connection ended after 2.1s, by the client, the provider or a process of the gateway that stopped."},
		{admin.Exchange{Status: 200, Outcome: "finished"}, "", "The gateway answered."},
	} {
		why := c.e.Explain()
		require.Equal(t, admin.Reason{Short: c.short, Sentence: c.sentence}, why)
	}
}
