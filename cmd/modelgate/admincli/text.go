package admincli

import (
	"fmt"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// LimitsOf says what limits are, separated by commas.
func LimitsOf(limits []*configv1.Limit) string {
	var all []string
	for _, l := range limits {
		all = append(all, LimitText(l.GetDomain(), l.GetUnit().String(), int64(l.GetRequestsPerUnit()), l.GetModel()))
	}
	return strings.Join(all, ", ")
}

// LimitText says "60 requests per minute of openai/*".
func LimitText(domain, unit string, n int64, model string) string {
	d := configv1.DomainOf(domain)
	text := fmt.Sprintf("%d %s", n, d.Text())
	if d.Concurrent {
		text = fmt.Sprintf("%d at once", n)
	} else if unit != "" {
		text += " per " + strings.ToLower(unit)
	}
	if model != "" {
		text += " of " + model
	}
	return text
}

// BudgetsOf says what budgets are, separated by commas.
func BudgetsOf(budgets []*configv1.Budget) string {
	var all []string
	for _, b := range budgets {
		all = append(all, "$"+b.GetUsd()+" per "+strings.ToLower(b.GetUnit().String()))
	}
	return strings.Join(all, ", ")
}

// Some names the first few of many.
func Some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Rows returns the row of each item.
func Rows[T any](items []T, row func(T) []string) [][]string {
	var rows [][]string
	for _, item := range items {
		rows = append(rows, row(item))
	}
	return rows
}

// ShellQuote writes a path so that a shell reads it as one word.
func ShellQuote(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+", r)
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
