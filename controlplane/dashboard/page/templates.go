package page

import (
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"net/url"
	"reflect"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
	"github.com/modelgate/modelgate/controlplane/dashboard/words"
)

//go:embed shared error.html
var own embed.FS

// parse returns a set of templates for each page: itself, what its section shares, and what all share.
func parse(sections []Section, static func(string) string) map[string]*template.Template {
	all := functions()
	all["static"] = static
	shared := template.Must(template.New("").Funcs(all).ParseFS(own, "shared/*.html"))
	pages := map[string]*template.Template{
		"error": template.Must(template.Must(shared.Clone()).ParseFS(own, "error.html")),
	}
	for _, s := range sections {
		if s.Templates != nil {
			maps.Copy(pages, parseSection(template.Must(shared.Clone()).Funcs(s.Functions), s.Templates, pages))
		}
	}
	return pages
}

func parseSection(base *template.Template, files fs.FS, there map[string]*template.Template,
) map[string]*template.Template {
	const sharedFile = "shared.html"
	names, err := fs.Glob(files, "*.html")
	if err != nil {
		panic(err)
	}
	if _, err := fs.Stat(files, sharedFile); err == nil {
		template.Must(base.ParseFS(files, sharedFile))
	}
	pages := map[string]*template.Template{}
	for _, file := range names {
		name := strings.TrimSuffix(file, ".html")
		if there[name] != nil {
			panic("two sections have the template " + name)
		}
		if file != sharedFile {
			pages[name] = template.Must(template.Must(base.Clone()).ParseFS(files, file))
		}
	}
	return pages
}

func functions() template.FuncMap {
	return template.FuncMap{
		"dict":    dict,
		"path":    Path,
		"object":  ObjectPath,
		"history": HistoryPath,
		"num":     words.Number,
		"short":   words.Short,
		"usd":     words.Dollars,
		"rate":    words.Price,
		"column":  func(of any, field string) func(string) string { return words.Column(textsOf(of, field)...) },
		"exact":   func(of any, field string) func(string) string { return words.Exact(textsOf(of, field)...) },
		"ms":      words.Milliseconds,
		"time":    words.Time,
		"percent": words.Percent,
		"change":  words.Change,
		"diff":    words.Diff,
		"level":   words.Level,
		"query":   func(encoded string) template.URL { return template.URL(encoded) }, //nolint:gosec // it is encoded
		"json":    func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
		"join":    func(list []string) string { return strings.Join(list, ", ") },
		"lines":   func(list []string) string { return strings.Join(list, "\n") },
		"lower":   strings.ToLower,
		"add":     func(a, b int) int { return a + b },
		"deref":   func(n *int64) int64 { return *n },
		"rows":    func(text string) int { return min(max(strings.Count(text, "\n")+4, 12), 40) },
		"kinds":   configv1.Kinds,

		"domains":    configv1.DomainNames,
		"domain":     forms.DomainText,
		"units":      forms.Units,
		"limitRows":  forms.LimitRows,
		"limitText":  forms.LimitText,
		"budget":     forms.BudgetOf,
		"budgetText": forms.BudgetText,
		"pairs":      forms.PairLines,
		"formTime":   forms.TimeField,

		"projectOf": func(name string) string { _, project, _ := strings.Cut(name, "/"); return project },
		"request":   func(id string) string { return "/requests/" + url.PathEscape(id) },
		"tenantName": func(m *configv1.Membership) string {
			return authz.Tenant{Organization: m.GetOrganization(), Project: m.GetProject()}.String()
		},
	}
}

// textsOf returns a field of the structs of a list, with pointers to them or without.
func textsOf(list any, field string) []string {
	rows := reflect.ValueOf(list)
	texts := make([]string, rows.Len())
	for i := range texts {
		texts[i] = reflect.Indirect(rows.Index(i)).FieldByName(field).String()
	}
	return texts
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
