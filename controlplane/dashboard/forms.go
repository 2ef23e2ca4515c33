package dashboard

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// listOf returns the lines of a field, and the parts of a line that commas separate.
func listOf(text string) []string {
	var list []string
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// pairsOf reads lines of "name=value".
func pairsOf(text string) (map[string]string, error) {
	var pairs map[string]string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return pairs, openai.CodeInvalidValue.On("metadata",
				"Each line must have the form name=value. %q does not.", line)
		}
		if pairs == nil {
			pairs = map[string]string{}
		}
		pairs[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return pairs, nil
}

// pairLines writes what pairsOf reads.
func pairLines(pairs map[string]string) string {
	var lines []string
	for name, value := range pairs {
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func unitOf(name string) configv1.Unit { return configv1.Unit(configv1.Unit_value[name]) }

func amountOf(text, field string) (uint64, error) {
	n, err := strconv.ParseUint(strings.NewReplacer(",", "", "_", "", " ", "").Replace(text), 10, 63)
	if err != nil {
		return 0, openai.CodeInvalidValue.On(field, "%q is not a whole number.", text)
	}
	return n, nil
}

// at returns an element of a field that is given more than once.
func at(f url.Values, name string, i int) string {
	if values := f[name]; i < len(values) {
		return strings.TrimSpace(values[i])
	}
	return ""
}

// limitsOf reads the rows of limits. A row without an amount is none.
func limitsOf(f url.Values) ([]*configv1.Limit, error) {
	var limits []*configv1.Limit
	for i := range f["limit_amount"] {
		amount := at(f, "limit_amount", i)
		if amount == "" {
			continue
		}
		n, err := amountOf(amount, "limits")
		if err != nil {
			return limits, err
		}
		l := &configv1.Limit{Domain: at(f, "limit_domain", i), Unit: unitOf(at(f, "limit_unit", i)), RequestsPerUnit: n,
			Model: at(f, "limit_model", i)}
		if configv1.DomainOf(l.GetDomain()).Concurrent {
			l.Unit = configv1.Unit_UNIT_UNSPECIFIED
		}
		limits = append(limits, l)
	}
	return limits, nil
}

// budgetsOf reads the two fields of budgets.
func budgetsOf(f url.Values) []*configv1.Budget {
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

// timeOf reads a date and time, which is UTC.
func timeOf(text string) (*timestamppb.Timestamp, error) {
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

// A limitRow is a row of the form of limits.
type limitRow struct {
	Domain, Unit, Amount, Model string
}

// limitRows returns the rows for limits, and one that is empty.
func limitRows(limits []*configv1.Limit) []limitRow {
	var rows []limitRow
	for _, l := range limits {
		rows = append(rows, limitRow{l.GetDomain(), l.GetUnit().String(), strconv.FormatUint(l.GetRequestsPerUnit(), 10),
			l.GetModel()})
	}
	return append(rows, limitRow{Domain: configv1.DomainRequests, Unit: "MINUTE"})
}

// budgetOf returns the amount of the budget of a unit.
func budgetOf(budgets []*configv1.Budget, unit string) string {
	for _, b := range budgets {
		if b.GetUnit().String() == unit {
			return b.GetUsd()
		}
	}
	return ""
}

// limitText says what a limit is, in words.
func limitText(l *configv1.Limit) string {
	text := number(l.GetRequestsPerUnit()) + " " + domainText(l.GetDomain())
	if l.GetUnit() != configv1.Unit_UNIT_UNSPECIFIED {
		text += " per " + strings.ToLower(l.GetUnit().String())
	}
	if l.GetModel() != "" {
		text += " for " + l.GetModel()
	}
	return text
}

func domainText(domain string) string {
	d := configv1.DomainOf(domain)
	if d.Concurrent {
		return "concurrent requests"
	}
	return d.Text()
}

func budgetText(b *configv1.Budget) string {
	return "$" + b.GetUsd() + " per " + strings.ToLower(b.GetUnit().String())
}

// formTime writes a time as a field of a form has it.
func formTime(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format("2006-01-02T15:04")
}

// firstError returns the first of several errors.
func firstError(errs ...error) error { return cmp.Or(errs...) }
