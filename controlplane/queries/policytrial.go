package queries

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/turns"
)

const (
	// trialTime is how long requests are judged. It is less than the time of the request.
	trialTime = 20 * time.Second
	// trialPage is how many requests are in memory at once.
	trialPage = 500
	// trialSince is the usual start.
	trialSince = 24 * time.Hour
	// maxTrialRules bounds what one request of the log costs.
	maxTrialRules = 1000
	// maxTrials is how many trials go on at once, in turns of organizations, and maxTrialQueue how many of each wait.
	maxTrials     = 2
	maxTrialQueue = 4
	// maxTrialNames bounds the memory: clients can invent names of models.
	maxTrialNames = 10_000
	// trialRows and trialExamples are how many are shown.
	trialRows     = 20
	trialExamples = 5
	// firstError is the lowest status of an error.
	firstError = 400
)

// TryPolicies says what policies would have done with the requests of the log. Without documents, they are the stored
// ones that are not disabled.
func (q *Service) TryPolicies(ctx context.Context, docs []configv1.Document,
	asked adminapi.ListOptions) (adminapi.PolicyTrial, error) {
	none := adminapi.PolicyTrial{}
	var turn turns.Turn
	defer turn.Release()
	piece := func() error { return q.tryInTurn(ctx, &turn) }
	policies, err := q.triedPolicies(ctx, docs, piece)
	if err != nil {
		return none, err
	}
	t, err := newTrial(policies, piece)
	if err != nil {
		return none, err
	}
	t.keyName = q.knownKey
	if err := q.judge(ctx, t, asked, piece); err != nil {
		return none, err
	}
	answer := t.result()
	for i := range answer.Keys {
		answer.Keys[i].DisplayName = q.KeyName(answer.Keys[i].Name)
	}
	return answer, nil
}

// tryInTurn waits until the caller's organization may go on with a trial. It is called before each piece of the work.
func (q *Service) tryInTurn(ctx context.Context, turn *turns.Turn) error {
	p, _ := authz.PrincipalOf(ctx)
	err := turn.Take(ctx, q.trials, cmp.Or(p.Tenant.Organization, p.Name))
	if errors.Is(err, turns.ErrMany) {
		return openai.CodeRateLimitExceeded.New("Too many trials of policies are running. Try again when they are complete.").After(10 * time.Second)
	}
	return err
}

// triedPolicies returns those of documents. Without any, they are the stored ones that are not disabled. It calls
// piece before each is compiled.
func (q *Service) triedPolicies(ctx context.Context, docs []configv1.Document,
	piece func() error) ([]*configv1.Policy, error) {
	var all []*configv1.Policy
	var errs configv1.Errors
	rules := 0
	for _, d := range docs {
		p, ok := d.Object.(*configv1.Policy)
		if !ok {
			return nil, openai.CodeInvalidValue.New("Only policies can be tried, not %q.",
				configv1.Label(d.Object))
		}
		if rules += len(p.GetRules()); rules > maxTrialRules {
			return nil, tooManyRules()
		}
		all = append(all, p)
	}
	for _, d := range docs {
		if err := piece(); err != nil {
			return nil, err
		}
		errs = append(errs, d.Validate(q.options.Vendors)...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if len(docs) == 0 {
		entries, err := q.options.Store.List(ctx, configv1.KindOf((*configv1.Policy)(nil)))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if p, ok := e.Object.(*configv1.Policy); ok && !p.GetDisabled() {
				all = append(all, p)
			}
		}
	}
	rules = 0
	for _, p := range all {
		rules += len(p.GetRules())
	}
	switch {
	case rules > maxTrialRules:
		return nil, tooManyRules()
	case rules == 0:
		return nil, openai.CodeInvalidValue.New(
			"There is no policy to try: send some, or store one that is not disabled.")
	}
	slices.SortStableFunc(all, func(a, b *configv1.Policy) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

func tooManyRules() error {
	return openai.CodeInvalidValue.New("At most %d rules can be tried at once.", maxTrialRules)
}

// judge has a trial judge the requests that are asked for, newest first, until the time is over. It calls piece before
// each.
func (q *Service) judge(ctx context.Context, t *trial, asked adminapi.ListOptions, piece func() error) error {
	now := time.Now()
	if asked.Filters["start"] == "" {
		asked.Filters["start"] = strconv.FormatInt(now.Add(-trialSince).Unix(), 10)
	}
	start, end := unixTime(asked.Filters["start"]), now.UTC().Truncate(time.Second)
	if asked.Filters["end"] != "" {
		end = unixTime(asked.Filters["end"])
	}
	t.answer.Start, t.answer.End = start, end
	asked.Limit = trialPage
	for {
		page, err := q.options.Ledger.Exchanges(ctx, asked)
		if err != nil {
			return ledger.Unavailable(err)
		}
		for i := range page.Items {
			if time.Since(now) > trialTime {
				t.answer.JudgedFrom = &page.Items[max(i-1, 0)].Start
				return nil
			}
			if err := piece(); err != nil {
				return err
			}
			if err := t.add(&page.Items[i]); err != nil {
				return err
			}
		}
		if asked.After = page.Next; asked.After == "" {
			return nil
		}
	}
}

// unixTime reads what optionsOf has checked.
func unixTime(s string) time.Time {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0).UTC()
}

// knownKey is keyName, and false for a key that is not known.
func (q *Service) knownKey(id string) (string, bool) {
	_, keys := q.options.Plane.Keys()
	key, ok := keys[id]
	return configv1.DisplayName(key), ok
}

// A trial counts what policies say of requests.
type trial struct {
	policies     *policy.Trial
	keyName      func(id string) (string, bool)
	answer       adminapi.PolicyTrial
	rules        map[string]*adminapi.PolicyTrialRule
	keys, models map[string]int64
}

func newTrial(policies []*configv1.Policy, piece func() error) (*trial, error) {
	compiled, err := policy.NewTrial(policies, piece)
	t := &trial{policies: compiled, rules: map[string]*adminapi.PolicyTrialRule{}, keys: map[string]int64{},
		models: map[string]int64{}}
	for _, p := range policies {
		t.answer.Policies = append(t.answer.Policies, p.GetName())
		for _, r := range p.GetRules() {
			name := p.GetName() + "/" + r.GetName()
			t.answer.Rules = append(t.answer.Rules, adminapi.PolicyTrialRule{Rule: name, Observe: r.GetObserve(),
				UseModel: r.GetUseModel(), Examples: []string{}})
		}
	}
	for i := range t.answer.Rules {
		t.rules[t.answer.Rules[i].Rule] = &t.answer.Rules[i]
	}
	return t, err
}

// wasDecided reports whether policies decide on such a request: it has a key, and is for a model or a Route. A
// vendor's batch has been decided on by its lines, and what is said in a session by its handshake.
func wasDecided(e *adminapi.Exchange) bool {
	return e.Key != "" && (e.Model != "" || e.Operation == "route") && e.Requests <= 1 && !e.Batch &&
		e.Operation != "realtime/transcription"
}

// factsOf returns what policies know of a request, and names what the request log does not.
func (t *trial) factsOf(e *adminapi.Exchange) (f *policy.Facts, unknown []string) {
	f = &policy.Facts{Model: e.Model, Operation: e.Operation, Stream: e.Stream, Tools: []string{}, Now: e.Start}
	f.Key, f.Organization, f.Project, f.User = e.Key, e.Organization, e.Project, e.User
	unknown = []string{"address", "token"}
	switch e.Operation {
	case "route":
		f.Model = "" // policies do not see it
	case "realtime", "realtime/response":
		f.Operation = "realtime"
	default:
		unknown = append(unknown, "tools", "size")
	}
	name, ok := t.keyName(e.Key)
	if f.KeyName = name; !ok {
		unknown = append(unknown, "key.name")
	}
	if e.User == "" && e.Attempts == 0 { // it was refused before the user was noted
		unknown = append(unknown, "user")
	}
	return f, unknown
}

func (t *trial) add(e *adminapi.Exchange) error {
	if !wasDecided(e) {
		return nil
	}
	verdicts, err := t.policies.Judge(t.factsOf(e))
	if err != nil {
		return err
	}
	t.answer.Requests++
	refused, unknown, chosen := false, false, false
	for _, v := range verdicts {
		note(t.rules[v.Rule], v, e.ID)
		sure := !v.Observe && len(v.Unknown) == 0
		refused, chosen = refused || sure && v.Model == "", chosen || sure && v.Model != ""
		unknown = unknown || !v.Observe && !sure
	}
	switch {
	case refused:
		t.answer.Refused++
		if e.Outcome == "finished" && e.Status < firstError {
			t.answer.Served++
		}
		count(t.keys, e.Key)
		count(t.models, e.Model)
	case unknown:
		t.answer.Unknown++
	case chosen:
		t.answer.Chosen++
	}
	return nil
}

// note adds a verdict to the counts of its rule.
func note(r *adminapi.PolicyTrialRule, v policy.Verdict, id string) {
	if len(v.Unknown) > 0 {
		r.Unknown++
		r.Missing = append(r.Missing, v.Unknown...)
		slices.Sort(r.Missing)
		r.Missing = slices.Compact(r.Missing)
		return
	}
	if v.Model != "" {
		r.Chosen++
	} else {
		r.Refused++
	}
	if v.Failed {
		r.Failed++
	}
	if len(r.Examples) < trialExamples {
		r.Examples = append(r.Examples, id)
	}
}

// count counts a name, or all further ones together once there are many.
func count(names map[string]int64, name string) {
	if _, ok := names[name]; !ok && len(names) >= maxTrialNames {
		name = ""
	}
	names[name]++
}

func (t *trial) result() adminapi.PolicyTrial {
	t.answer.Keys, t.answer.Models = most(t.keys), most(t.models)
	return t.answer
}

// most returns the names that were counted most often, and the sum of the others.
func most(names map[string]int64) []adminapi.PolicyTrialCount {
	all := []adminapi.PolicyTrialCount{}
	rest := names[""]
	for name, n := range names {
		if name != "" {
			all = append(all, adminapi.PolicyTrialCount{Name: name, Refused: n})
		}
	}
	slices.SortFunc(all, func(a, b adminapi.PolicyTrialCount) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(a.Name, b.Name))
	})
	for len(all) > trialRows {
		rest += all[len(all)-1].Refused
		all = all[:len(all)-1]
	}
	if rest > 0 {
		all = append(all, adminapi.PolicyTrialCount{Refused: rest})
	}
	return all
}
