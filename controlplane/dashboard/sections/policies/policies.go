// Package policies is the pages of policies, and dry runs of them.
//
// A dry run stores nothing, and loses nothing of the form either.
package policies

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 120,
		Lines: []page.Line{
			{Group: page.GroupRules, Path: "/policies", Name: "Policies", Scope: authz.ConfigRead},
			{Group: page.GroupRules, Path: "/objects/Guardrail", Name: "Guardrails", Scope: authz.ConfigRead},
		},
		Routes: []page.Route{
			page.Get("/policies", authz.ConfigRead, list),
			page.Post("/policies", authz.ConfigWrite, create),
			page.Get("/new/policy", authz.ConfigWrite, form),
			page.Get("/policies/{name}", authz.ConfigRead, show),
			page.Post("/policies/{name}", authz.ConfigWrite, change),
		},
		Templates: templates,
		Functions: template.FuncMap{"periods": func() []forms.Choice {
			return forms.Choices([][2]string{{"1h", "last hour"}, {"24h", "last 24 hours"}, {"7d", "last 7 days"}})
		}},
	}
}

func kind() configv1.Kind { return configv1.KindOf((*configv1.Policy)(nil)) }

func list(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	return v.RenderList(w, r, kind(), "policies", "Policies")
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

// trialPeriods are the periods whose past requests can be tried.
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
func readPolicy(f url.Values, p *configv1.Policy) error {
	err := forms.Read(f, p, "organization", "project", "key", "disabled")
	p.Rules = nil
	for i := range f["rule_name"] {
		r := &configv1.PolicyRule{Name: forms.At(f, "rule_name", i), Observe: forms.At(f, "rule_mode", i) == "observe"}
		expression, says := forms.At(f, "rule_expression", i), forms.At(f, "rule_says", i)
		switch {
		case r.GetName() == "" && expression == "":
			continue
		case forms.At(f, "rule_effect", i) == effectChoose:
			r.When, r.UseModel = expression, says
		default:
			r.Deny, r.Message = expression, says
		}
		p.Rules = append(p.Rules, r)
	}
	return err
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

func render(v *page.Visit, w http.ResponseWriter, status int, data policyData, problem string) error {
	title := "Policy " + data.Policy.GetName()
	if data.New {
		title = "New policy"
	}
	if data.Since == "" {
		data.Since = "24h"
	}
	return v.RenderStatus(w, status, "policy", title, data, problem)
}

func form(v *page.Visit, w http.ResponseWriter, _ *http.Request) error {
	p := &configv1.Policy{}
	return render(v, w, http.StatusOK, policyData{Policy: p, New: true, Rows: policyRows(p)}, "")
}

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	p, status, err := page.Stored[*configv1.Policy](v, r)
	if err != nil {
		return err
	}
	return render(v, w, http.StatusOK, policyData{Policy: p, Status: status, Rows: policyRows(p)}, "")
}

func create(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data := policyData{Policy: &configv1.Policy{Name: strings.TrimSpace(r.PostForm.Get("name"))}, New: true}
	return write(v, w, r, data)
}

func change(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	p, status, err := page.Stored[*configv1.Policy](v, r)
	if err != nil {
		return err
	}
	status.Revision = page.Revision(r) // of the form: it may have changed meanwhile
	return write(v, w, r, policyData{Policy: p, Status: status})
}

// write tries or saves what is in the form.
func write(v *page.Visit, w http.ResponseWriter, r *http.Request, data policyData) error {
	p := data.Policy
	if err := readPolicy(r.PostForm, p); err != nil {
		return err
	}
	data.Rows, data.Since = policyRows(p), r.PostForm.Get("since")
	if others := problemsOf(p, data.Rows); len(others) > 0 || len(configv1.Validate(p, nil)) > 0 {
		problem := "Correct the rules below."
		if len(others) > 0 {
			problem = strings.Join(others, ". ")
		}
		return render(v, w, http.StatusUnprocessableEntity, data, problem)
	}
	if r.PostForm.Get("action") == "try" {
		return try(v, w, r, data)
	}
	return v.Save(w, r, p, data.New, nil, page.Path("policies", p.GetName()),
		func(status int, problem string) error { return render(v, w, status, data, problem) })
}

// try shows what the policy of the form would have done with past requests, and stores nothing.
func try(v *page.Visit, w http.ResponseWriter, r *http.Request, data policyData) error {
	period, ok := trialPeriods()[data.Since]
	if !ok {
		data.Since, period = "24h", 24*time.Hour
	}
	trial, err := v.API.TestPolicies(r.Context(), []*configv1.Policy{data.Policy},
		map[string]string{"start": strconv.FormatInt(v.Now().Add(-period).Unix(), 10)})
	e, refused := errors.AsType[*openai.Error](err)
	switch {
	case refused: // also if the ledger is unavailable: the form's content is not lost
		data.Untried = e.Message
		return render(v, w, e.Status, data, "")
	case err != nil:
		return err
	}
	data.Trial = &trial
	return render(v, w, http.StatusOK, data, "")
}
