package segment

import (
	"slices"

	"github.com/modelgate/modelgate/internal/usage"
)

// who returns the columns that say which exchange it is, when it was and whose.
func who() []column {
	return []column{
		texts(ID, unique, "id", "Unique among all exchanges.", func(r *Row) *string { return &r.ID }),
		texts(RequestID, unique, "request_id", "The header x-request-id of the response.",
			func(r *Row) *string { return &r.RequestID }),
		numbers(StartedAt, instant, "started_at", "When it began. Rows are in this order, and those of one time by id.",
			func(r *Row) *int64 { return &r.StartedAt }),
		numbers(DurationMS, count, "duration_ms", "", func(r *Row) *int64 { return &r.DurationMS }),
		numbers(FirstByteMS, count, "first_byte_ms", "Time to the first byte of the answer; 0: there was none.",
			func(r *Row) *int64 { return &r.FirstByteMS }),
		texts(Key, text, "api_key", "The id of the key.", func(r *Row) *string { return &r.Key }),
		texts(Organization, text, "organization", "", func(r *Row) *string { return &r.Organization }),
		texts(Project, text, "project", "", func(r *Row) *string { return &r.Project }),
		texts(User, text, "user_id", "The member user of the request.", func(r *Row) *string { return &r.User }),
	}
}

// what returns the columns that say what was asked and how it ended.
func what() []column {
	return []column{
		texts(Operation, text, "operation", "Such as chat/completions.", func(r *Row) *string { return &r.Operation }),
		texts(Model, text, "model", "As the client named it.", func(r *Row) *string { return &r.Model }),
		texts(Provider, text, "provider", "Which provider answered.", func(r *Row) *string { return &r.Provider }),
		texts(UpstreamModel, text, "upstream_model", "As the provider names the model.",
			func(r *Row) *string { return &r.UpstreamModel }),
		numbers(Attempts, number, "attempts", "How many attempts there were.", func(r *Row) *int64 { return &r.Attempts }),
		flags(Stream, "stream", "The answer was a stream.", func(r *Row) *bool { return &r.Stream }),
		numbers(Status, number, "status", "Status that the client got; 0: none was sent.",
			func(r *Row) *int64 { return &r.Status }),
		texts(Outcome, text, "outcome", "finished, rejected, failed, truncated, cancelled, gateway or interrupted.",
			func(r *Row) *string { return &r.Outcome }),
		texts(ErrorCode, text, "error_code", "Code of the error that the client got.",
			func(r *Row) *string { return &r.ErrorCode }),
		texts(RefusedBy, text, "refused_by", "What of the gateway refused the request, such as key/key_1 limit requests per minute.",
			func(r *Row) *string { return &r.RefusedBy }),
		texts(KeyHint, text, "key_hint", "The last characters of a key that is not known.",
			func(r *Row) *string { return &r.KeyHint }),
		numbers(Requests, number, "requests", "How many exchanges the row counts: more than 1 for a vendor's batch, and for "+
			"refused requests that have no row of their own.",
			func(r *Row) *int64 { return &r.Requests }),
	}
}

// used returns the columns of all kinds of usage.
func used() []column {
	all := make([]column, 0, usage.All)
	for k := range usage.All {
		about := ""
		if of := usage.Fields[k].Of; of != k {
			about = "A part of " + usage.Fields[of].Column + "."
		}
		all = append(all, numbers(UsedColumn(k), count, usage.Fields[k].Column, about,
			func(r *Row) *int64 { return &r.Used[k] }))
	}
	return all
}

func costs() []column {
	return []column{
		numbers(Cost, money, "cost_usd", "What it cost, exactly.", func(r *Row) *int64 { return &r.Cost }),
		numbers(Fees, money, "fees_usd", "The part of cost_usd for tools that the vendor ran.",
			func(r *Row) *int64 { return &r.Fees }),
		flags(Priced, "priced", "There was a price for the model. Without one cost_usd is 0.",
			func(r *Row) *bool { return &r.Priced }),
		texts(PriceVersion, text, "price_version", "Version of the catalog whose price was used.",
			func(r *Row) *string { return &r.PriceVersion }),
		flags(Batch, "batch", "Charged at the price of the vendor's batch API.", func(r *Row) *bool { return &r.Batch }),
		flags(Estimated, "estimated", "The provider did not report the whole usage. The gateway counted it.",
			func(r *Row) *bool { return &r.Estimated }),
	}
}

// details returns the columns that explain one exchange.
func details() []column {
	return []column{
		texts(TraceID, unique, "trace_id", "The id of the trace, in hexadecimal.",
			func(r *Row) *string { return &r.TraceID }),
		texts(UpstreamID, unique, "upstream_request_id", "The header x-upstream-request-id of the response.",
			func(r *Row) *string { return &r.UpstreamID }),
		texts(Dropped, text, "dropped", "The header x-modelgate-dropped.", func(r *Row) *string { return &r.Dropped }),
		texts(Adjusted, text, "adjusted", "The header x-modelgate-adjusted.", func(r *Row) *string { return &r.Adjusted }),
		texts(Cache, text, "cache", "What a response cache did.", func(r *Row) *string { return &r.Cache }),
		texts(Policy, text, "policy", "The rule of a policy that chose the model.",
			func(r *Row) *string { return &r.Policy }),
		texts(Message, text, "message", "What the client was told, if a rule of the gateway refused the request.",
			func(r *Row) *string { return &r.Message }),
	}
}

// lists returns the columns of the elements of lists.
func lists() []column {
	return slices.Concat(
		names(Plan, "plan", "The targets in their order, as provider/model, if there were several.",
			func(r *Row) *[]string { return &r.Plan }),
		names(Guards, "guards", "What guardrails have found, such as mask pii/email in the request: 2.",
			func(r *Row) *[]string { return &r.Guards }),
		limits(), attempts())
}

// names returns the column of a list of texts.
func names(id Column, name, about string, get func(*Row) *[]string) []column {
	of := &list{id: id, name: name, about: about, length: func(r *Row) int { return len(*get(r)) },
		resize: func(r *Row, n int) { *get(r) = make([]string, n) }}
	return []column{{id: id + 1, in: of, form: text, text: func(r *Row, i int) *string { return &(*get(r))[i] }}}
}

func limits() []column {
	of := &list{id: Limits, name: "limits", about: "The limits and budgets under which the request was reserved.",
		length: func(r *Row) int { return len(r.Limits) },
		resize: func(r *Row, n int) { r.Limits = make([]Limit, n) }}
	const amount = " For a budget, in billionths of a dollar."
	return []column{
		{id: Limits + 1, in: of, name: "rule", form: text, text: func(r *Row, i int) *string { return &r.Limits[i].Rule }},
		{id: Limits + 2, in: of, name: "reserved", form: number, about: "What it counted before the request was sent." + amount,
			number: func(r *Row, i int) *int64 { return &r.Limits[i].Reserved }},
		{id: Limits + 3, in: of, name: "settled", form: number, about: "What it counted after the request had ended." + amount,
			number: func(r *Row, i int) *int64 { return &r.Limits[i].Settled }},
	}
}

func attempts() []column {
	of := &list{id: AttemptList, name: "attempt_list",
		about:  "The attempts, oldest first. Empty if there was one that did not fail, or none: the other fields describe it.",
		length: func(r *Row) int { return len(r.AttemptList) },
		resize: func(r *Row, n int) { r.AttemptList = make([]Attempt, n) }}
	texts := func(id Column, name, about string, get func(*Attempt) *string) column {
		return column{id: AttemptList + id, in: of, name: name, about: about, form: text,
			text: func(r *Row, i int) *string { return get(&r.AttemptList[i]) }}
	}
	numbers := func(id Column, name, about string, get func(*Attempt) *int64) column {
		return column{id: AttemptList + id, in: of, name: name, about: about, form: number,
			number: func(r *Row, i int) *int64 { return get(&r.AttemptList[i]) }}
	}
	return []column{
		texts(1, "kind", "first, retry (at the provider of the attempt before) or fallback (at another).",
			func(a *Attempt) *string { return &a.Kind }),
		texts(2, "provider", "", func(a *Attempt) *string { return &a.Provider }),
		texts(3, "upstream_model", "As the provider names it.", func(a *Attempt) *string { return &a.UpstreamModel }),
		numbers(4, "status", "Status of the provider's answer; 0: no answer.", func(a *Attempt) *int64 { return &a.Status }),
		texts(5, "error", "Why it failed; empty if it did not.", func(a *Attempt) *string { return &a.Error }),
		numbers(6, "start_ms", "When it began, after the exchange did.", func(a *Attempt) *int64 { return &a.StartMS }),
		numbers(7, "first_byte_ms", "Time from its start to the first byte of the answer; 0: there was none.",
			func(a *Attempt) *int64 { return &a.FirstByteMS }),
		numbers(8, "duration_ms", "", func(a *Attempt) *int64 { return &a.DurationMS }),
		numbers(9, "cool_ms", "How long the provider is left alone because of it, from its end.",
			func(a *Attempt) *int64 { return &a.CoolMS }),
	}
}
