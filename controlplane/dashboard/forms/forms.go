// Package forms reads the fields of forms, and writes what their fields hold.
//
// A field that the form does not have reads as empty, so a page that shows only some fields must not read the others.
package forms

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/dashboard/words"
)

// List returns the lines of a field, and the parts of a line that commas separate.
func List(text string) []string {
	var list []string
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// Pairs reads lines of "name=value".
func Pairs(text, field string) (map[string]string, error) {
	var pairs map[string]string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return pairs, openai.CodeInvalidValue.On(field,
				"Each line must have the form name=value. %q does not.", line)
		}
		if pairs == nil {
			pairs = map[string]string{}
		}
		pairs[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return pairs, nil
}

// PairLines writes what Pairs reads.
func PairLines(pairs map[string]string) string {
	var lines []string
	for name, value := range pairs {
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Unit returns the unit of a name; unspecified if there is none.
func Unit(name string) configv1.Unit { return configv1.Unit(configv1.Unit_value[name]) }

// Units returns the windows of limits, which are shorter than a budget's month.
func Units() []Choice {
	var all []Choice
	for u := configv1.Unit_SECOND; u <= configv1.Unit_DAY; u++ {
		all = append(all, Choice{u.String(), "per " + strings.ToLower(u.String())})
	}
	return all
}

// Amount reads a whole number, with or without separators of thousands.
func Amount(text, field string) (uint64, error) {
	n, err := strconv.ParseUint(strings.NewReplacer(",", "", "_", "", " ", "").Replace(text), 10, 63)
	if err != nil {
		return 0, openai.CodeInvalidValue.On(field, "%q is not a whole number.", text)
	}
	return n, nil
}

// At returns an element of a field that is given more than once.
func At(f url.Values, name string, i int) string {
	if values := f[name]; i < len(values) {
		return strings.TrimSpace(values[i])
	}
	return ""
}

// Limits reads the rows of limits. A row without an amount is none.
func Limits(f url.Values) ([]*configv1.Limit, error) {
	var limits []*configv1.Limit
	for i := range f["limit_amount"] {
		amount := At(f, "limit_amount", i)
		if amount == "" {
			continue
		}
		n, err := Amount(amount, "limits")
		if err != nil {
			return limits, err
		}
		l := &configv1.Limit{Domain: At(f, "limit_domain", i), Unit: Unit(At(f, "limit_unit", i)), RequestsPerUnit: n,
			Model: At(f, "limit_model", i)}
		if configv1.DomainOf(l.GetDomain()).Concurrent {
			l.Unit = configv1.Unit_UNIT_UNSPECIFIED
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// Budgets reads the two fields of budgets.
func Budgets(f url.Values) []*configv1.Budget {
	var budgets []*configv1.Budget
	for _, b := range []struct {
		field string
		unit  configv1.Unit
	}{{"budget_day", configv1.Unit_DAY}, {"budget_month", configv1.Unit_MONTH}} {
		if usd := strings.TrimPrefix(strings.TrimSpace(f.Get(b.field)), "$"); usd != "" {
			budgets = append(budgets, &configv1.Budget{Unit: b.unit, Usd: usd})
		}
	}
	return budgets
}

// Time reads a date and time, which is UTC.
func Time(text string) (*timestamppb.Timestamp, error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return timestamppb.New(t), nil
		}
	}
	return nil, openai.CodeInvalidValue.On("expires_at", "%q is not a date and time.", text)
}

// A LimitRow is a row of the form of limits.
type LimitRow struct {
	Domain, Unit, Amount, Model string
}

// LimitRows returns the rows for limits, and one that is empty.
func LimitRows(limits []*configv1.Limit) []LimitRow {
	var rows []LimitRow
	for _, l := range limits {
		rows = append(rows, LimitRow{l.GetDomain(), l.GetUnit().String(), strconv.FormatUint(l.GetRequestsPerUnit(), 10),
			l.GetModel()})
	}
	return append(rows, LimitRow{Domain: configv1.DomainRequests, Unit: "MINUTE"})
}

// BudgetOf returns the amount of the budget of a unit.
func BudgetOf(budgets []*configv1.Budget, unit string) string {
	for _, b := range budgets {
		if b.GetUnit().String() == unit {
			return b.GetUsd()
		}
	}
	return ""
}

// LimitText says what a limit is, in words.
func LimitText(l *configv1.Limit) string {
	text := words.Number(l.GetRequestsPerUnit()) + " " + DomainText(l.GetDomain())
	if l.GetUnit() != configv1.Unit_UNIT_UNSPECIFIED {
		text += " per " + strings.ToLower(l.GetUnit().String())
	}
	if l.GetModel() != "" {
		text += " for " + l.GetModel()
	}
	return text
}

// DomainText says what a domain of limits counts.
func DomainText(domain string) string {
	d := configv1.DomainOf(domain)
	if d.Concurrent {
		return "concurrent requests"
	}
	return d.Text()
}

// BudgetText says what a budget is, in words.
func BudgetText(b *configv1.Budget) string {
	return "$" + b.GetUsd() + " per " + strings.ToLower(b.GetUnit().String())
}

// TimeField writes a time as a field of a form has it: with seconds only if it has some.
func TimeField(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	at := t.AsTime()
	if at.Truncate(time.Minute).Equal(at) {
		return at.Format("2006-01-02T15:04")
	}
	return at.Format("2006-01-02T15:04:05.999")
}

// Small reads a number that may be left out.
func Small(text, field string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := Amount(text, field)
	if err == nil && n > 1<<31 {
		err = openai.CodeInvalidValue.On(field, "%s is too large.", text)
	}
	return uint32(n), err
}

// A Choice is one of several, with its name.
type Choice struct{ Value, Name string }

// Choices returns choices of pairs of a value and its name.
func Choices(pairs [][2]string) []Choice {
	all := make([]Choice, len(pairs))
	for i, p := range pairs {
		all[i] = Choice{p[0], p[1]}
	}
	return all
}
