package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

func policyKind() configv1.Kind { return configv1.KindOf((*configv1.Policy)(nil)) }

func (v *visit) policies(w http.ResponseWriter, r *http.Request) error {
	data, err := v.list(r, policyKind())
	if err != nil {
		return err
	}
	return v.render(w, "policies", "Policies", data)
}

// A policyData is what the page of one policy shows.
type policyData struct {
	Policy  *configv1.Policy
	New     bool
	Status  adminapi.Status
	Rows    []policyRow
	Since   string // of the dry run: one of trialPeriods
	Trial   *adminapi.PolicyTrial
	Untried string // why there is no Trial although there should be one
}

// Effects of a rule, as the form calls them.
const (
	effectDeny   = "deny"
	effectChoose = "use_model"
)

// A policyRow is a rule as the form has it.
type policyRow struct {
	Name, Effect, Expression string
	Says                     string // the message for the client, or the model that is chosen
	Observe                  bool
	Problems                 []string
}

// trialPeriods are those of which past requests can be tried.
func trialPeriods() map[string]time.Duration {
	return map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}
}

// policyRows returns the rows for the rules of a policy, and one that is empty.
func policyRows(p *configv1.Policy) []policyRow {
	var rows []policyRow
	for _, r := range p.GetRules() {
		row := policyRow{Name: r.GetName(), Effect: effectDeny, Says: r.GetMessage(), Observe: r.GetObserve()}
		if r.GetWhen() != "" || r.GetUseModel() != "" {
			row.Effect, row.Says = effectChoose, r.GetUseModel()
		}
		_, row.Expression = r.Expression()
		rows = append(rows, row)
	}
	return append(rows, policyRow{Effect: effectDeny})
}

// readPolicy puts what a form says into a policy. A row without a name and an expression is none.
func readPolicy(f url.Values, p *configv1.Policy) {
	p.Organization, p.Project = strings.TrimSpace(f.Get("organization")), strings.TrimSpace(f.Get("project"))
	p.Key, p.Disabled = strings.TrimSpace(f.Get("key")), f.Get("disabled") != ""
	p.Rules = nil
	for i := range f["rule_name"] {
		r := &configv1.PolicyRule{Name: at(f, "rule_name", i), Observe: at(f, "rule_mode", i) == "observe"}
		expression, says := at(f, "rule_expression", i), at(f, "rule_says", i)
		switch {
		case r.GetName() == "" && expression == "":
			continue
		case at(f, "rule_effect", i) == effectChoose:
			r.When, r.UseModel = expression, says
		default:
			r.Deny, r.Message = expression, says
		}
		p.Rules = append(p.Rules, r)
	}
}

// problemsOf puts what is wrong with rules beside them, and returns what else is wrong.
func problemsOf(p *configv1.Policy, rows []policyRow) (others []string) {
	for _, e := range configv1.Validate(p, nil) {
		rest, ofRule := strings.CutPrefix(e.Field, "rules[")
		number, field, _ := strings.Cut(rest, "]")
		i, err := strconv.Atoi(number)
		if !ofRule || err != nil || i >= len(rows) {
			others = append(others, strings.TrimPrefix(e.Field+" "+e.Message, " "))
			continue
		}
		rows[i].Problems = append(rows[i].Problems, strings.TrimSpace(strings.TrimPrefix(field, ".")+" "+e.Message))
	}
	return others
}

func (v *visit) policyPage(w http.ResponseWriter, status int, data policyData, problem string) error {
	title := "Policy " + data.Policy.GetName()
	if data.New {
		title = "New policy"
	}
	if data.Since == "" {
		data.Since = "24h"
	}
	return v.renderStatus(w, status, "policy", title, data, problem)
}

func (v *visit) newPolicy(w http.ResponseWriter, _ *http.Request) error {
	p := &configv1.Policy{}
	return v.policyPage(w, http.StatusOK, policyData{Policy: p, New: true, Rows: policyRows(p)}, "")
}

func (v *visit) showPolicy(w http.ResponseWriter, r *http.Request) error {
	p, status, err := stored[*configv1.Policy](v, r)
	if err != nil {
		return err
	}
	return v.policyPage(w, http.StatusOK, policyData{Policy: p, Status: status, Rows: policyRows(p)}, "")
}

func (v *visit) createPolicy(w http.ResponseWriter, r *http.Request) error {
	data := policyData{Policy: &configv1.Policy{Name: strings.TrimSpace(r.PostForm.Get("name"))}, New: true}
	return v.writePolicy(w, r, data)
}

func (v *visit) changePolicy(w http.ResponseWriter, r *http.Request) error {
	p, status, err := stored[*configv1.Policy](v, r)
	if err != nil {
		return err
	}
	status.Revision = revisionOf(r) // of the form: it may have changed meanwhile
	return v.writePolicy(w, r, policyData{Policy: p, Status: status})
}

// writePolicy tries or saves what is in the form.
func (v *visit) writePolicy(w http.ResponseWriter, r *http.Request, data policyData) error {
	p := data.Policy
	readPolicy(r.PostForm, p)
	data.Rows, data.Since = policyRows(p), r.PostForm.Get("since")
	if others := problemsOf(p, data.Rows); len(others) > 0 || len(configv1.Validate(p, nil)) > 0 {
		problem := "Correct the rules below."
		if len(others) > 0 {
			problem = strings.Join(others, ". ")
		}
		return v.policyPage(w, http.StatusUnprocessableEntity, data, problem)
	}
	if r.PostForm.Get("action") == "try" {
		return v.tryPolicy(w, r, data)
	}
	var err error
	if data.New {
		err = v.create(r, p)
	} else {
		_, err = v.api.Put(r.Context(), p, data.Status.Revision)
	}
	if message, ok := refused(err); ok {
		return v.policyPage(w, http.StatusUnprocessableEntity, data, message)
	}
	return v.done(w, r, err, pathTo("policies", p.GetName()), map[bool]string{true: "created", false: "saved"}[data.New])
}

// tryPolicy shows what the policy of the form would have done with past requests, and stores nothing.
func (v *visit) tryPolicy(w http.ResponseWriter, r *http.Request, data policyData) error {
	period, ok := trialPeriods()[data.Since]
	if !ok {
		data.Since, period = "24h", 24*time.Hour
	}
	trial, err := v.api.TestPolicies(r.Context(), []*configv1.Policy{data.Policy},
		map[string]string{"start": strconv.FormatInt(v.config.Now().Add(-period).Unix(), 10)})
	e, refused := errors.AsType[*openai.Error](err)
	switch {
	case refused: // also where the ledger is away: what is in the form is not lost
		data.Untried = e.Message
		return v.policyPage(w, e.Status, data, "")
	case err != nil:
		return err
	}
	data.Trial = &trial
	return v.policyPage(w, http.StatusOK, data, "")
}
