package dashboard

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

//go:embed templates
var templateFiles embed.FS

// parsePages returns a set of templates for each page: itself and what all share. It panics where one is broken, which
// every test finds.
func parsePages() map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions()).ParseFS(templateFiles, "templates/shared/*.html"))
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	pages := map[string]*template.Template{}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".html"); ok {
			t := template.Must(shared.Clone())
			pages[name] = template.Must(t.ParseFS(templateFiles, path.Join("templates", f.Name())))
		}
	}
	return pages
}

func functions() template.FuncMap {
	return template.FuncMap{
		"static":     staticURL,
		"dict":       dict,
		"path":       pathTo,
		"object":     objectPath,
		"history":    historyPath,
		"request":    func(id string) string { return "/requests/" + url.PathEscape(id) },
		"num":        number,
		"short":      shortNumber,
		"usd":        dollars,
		"rate":       priceText,
		"ms":         milliseconds,
		"time":       timeElement,
		"percent":    percent,
		"change":     change,
		"query":      func(encoded string) template.URL { return template.URL(encoded) }, //nolint:gosec // it is encoded
		"budgetPath": budgetPath,
		"json":       func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"join":       func(list []string) string { return strings.Join(list, ", ") },
		"lines":      func(list []string) string { return strings.Join(list, "\n") },
		"lower":      strings.ToLower,

		"healthTag": healthTag,
		"diff":      diffLines,
		"add":       func(a, b int) int { return a + b },

		"domains":    configv1.DomainNames,
		"domain":     domainText,
		"limitRows":  limitRows,
		"limitText":  limitText,
		"budget":     budgetOf,
		"budgetText": budgetText,
		"pairs":      pairLines,
		"formTime":   formTime,
		"rules":      rules,
		"periods":    func() []choice { return []choice{{"1h", "last hour"}, {"24h", "last 24 hours"}, {"7d", "last 7 days"}} },
		"credential": credentialText,
		"jobLevel":   jobLevel,
		"rows":       func(text string) int { return min(max(strings.Count(text, "\n")+4, 12), 40) },
		"scope":      scopeText,
		"kinds":      configv1.Kinds,
		"roles": func() []choice {
			return []choice{{"ROLE_UNSPECIFIED", "none: only memberships"}, {"VIEWER", "viewer: reads"},
				{"AUDITOR", "auditor: reads accounts too"},
				{"OPERATOR", "operator: changes everything except accounts"}, {"ADMIN", "admin: manages accounts too"},
				{"OWNER", "owner: everything"}}
		},
		"memberships": membershipLines,
		"tenantName":  nameOfTenant,
		"outcomes": func() []string {
			return []string{"served", "error", "finished", "rejected", "failed", "truncated", "cancelled", "gateway",
				"interrupted"}
		},
		"deref":     func(n *int64) int64 { return *n },
		"level":     level,
		"projectOf": func(name string) string { _, project, _ := strings.Cut(name, "/"); return project },
	}
}

// budgetPath returns the path of who has a budget: key/NAME, organization/NAME or project/NAME.
func budgetPath(scope string) string {
	kind, name, _ := strings.Cut(scope, "/")
	return pathTo(kind+"s", name)
}

// scopeText says whose a limit is, on the page of a key.
func scopeText(scope string) string {
	if strings.HasPrefix(scope, "key/") {
		return "of this key"
	}
	return "of the " + strings.Replace(scope, "/", " ", 1)
}

// dict makes a map of names and values, to give several things to a template.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict: a name without a value")
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, errors.New("dict: a name that is not a string")
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// pathTo returns the path of a named thing. The name may hold slashes.
func pathTo(base, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/" + base + "/" + strings.Join(parts, "/")
}

// objectPath returns the path of an object, below objects or delete; without a name that of its kind.
func objectPath(base, kind, name string) string {
	if name == "" {
		return "/" + base + "/" + kind
	}
	return pathTo(base+"/"+kind, name)
}

// number writes a number with its thousands apart.
func number(v any) string {
	s := fmt.Sprint(v)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// shortNumber writes a number in about four characters.
func shortNumber(n int64) string {
	f := float64(n)
	for _, unit := range []string{"", "k", "M", "G"} {
		if math.Abs(f) < 999.5 || unit == "G" {
			if unit == "" {
				return strconv.FormatInt(n, 10)
			}
			return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + unit
		}
		f /= 1000
	}
	return ""
}

// dollars writes an amount that is a decimal: with cents, and what is less than a cent with four digits that count.
func dollars(amount string) string {
	f, err := strconv.ParseFloat(amount, 64)
	switch {
	case amount == "" || err != nil:
		return "$0.00"
	case f != 0 && math.Abs(f) < 0.0001:
		return "<$0.0001"
	case f != 0 && math.Abs(f) < 1:
		return "$" + strconv.FormatFloat(f, 'f', 4, 64)
	}
	whole, cents, _ := strings.Cut(strconv.FormatFloat(f, 'f', 2, 64), ".")
	return "$" + number(whole) + "." + cents
}

// priceText writes a price, which is a decimal, with all of its digits and at least cents.
func priceText(price string) string {
	if price == "" {
		return ""
	}
	whole, part, _ := strings.Cut(price, ".")
	for len(part) < 2 {
		part += "0"
	}
	return "$" + whole + "." + part
}

func milliseconds(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " ms"
	case n < 60_000:
		return strconv.FormatFloat(float64(n)/1000, 'f', 2, 64) + " s"
	}
	return time.Duration(n * int64(time.Millisecond)).Round(time.Second).String()
}

// timeElement writes a time, which app.js then shows in the reader's own zone.
func timeElement(v any) template.HTML {
	var at time.Time
	switch v := v.(type) {
	case time.Time:
		at = v
	case *time.Time:
		if v != nil {
			at = *v
		}
	case int64:
		if v != 0 {
			at = time.Unix(v, 0)
		}
	case interface{ AsTime() time.Time }:
		at = v.AsTime()
	}
	if at.IsZero() || at.Unix() == 0 {
		return `<span class="faint">never</span>`
	}
	at = at.UTC()
	// Nothing but a time is in it.
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339) + `">` + at.Format("2006-01-02 15:04:05") +
		` UTC</time>`)
}

// percent returns how much of a whole a part is, at most 100.
func percent(part, whole any) int {
	p, errPart := strconv.ParseFloat(fmt.Sprint(part), 64)
	w, errWhole := strconv.ParseFloat(fmt.Sprint(whole), 64)
	if errPart != nil || errWhole != nil || w <= 0 {
		return 0
	}
	return int(min(100*p/w, 100))
}

// change says by how much a figure differs from that of the previous period.
func change(before, now any) string {
	b, errBefore := strconv.ParseFloat(fmt.Sprint(before), 64)
	n, errNow := strconv.ParseFloat(fmt.Sprint(now), 64)
	switch {
	case errBefore != nil || errNow != nil:
		return ""
	case b == n:
		return "as in the previous period"
	case b == 0:
		return "none in the previous period"
	}
	return fmt.Sprintf("%+.0f %% to the previous period", 100*(n-b)/b)
}

// A diffLine is a line of a unified diff. Kind is add, del, hunk, or empty.
type diffLine struct{ Kind, Text string }

func diffLines(diff string) []diffLine {
	var lines []diffLine
	for line := range strings.SplitSeq(strings.TrimRight(diff, "\n"), "\n") {
		kind := ""
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "@@"):
			kind = "hunk"
		case strings.HasPrefix(line, "+"):
			kind = "add"
		case strings.HasPrefix(line, "-"):
			kind = "del"
		}
		lines = append(lines, diffLine{kind, line})
	}
	return lines
}

// level names how near a percentage is to the whole.
func level(percent int) string {
	switch {
	case percent >= 95:
		return "bad"
	case percent >= 80:
		return "warn"
	}
	return "fine"
}
