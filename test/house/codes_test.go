package house_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

// others make errors that are not the gateway's: they play vendors, Envoy and clients.
var others = []string{"internal/fakeprovider/...", "internal/provider/providertest", "extproc/extproctest", "test/..."}

// passed are the expressions by which a code of a vendor, or one that is made elsewhere, becomes that of an error.
var passed = []string{
	"stop", "strings.ToLower(string(first.finish))", "v.typ", "clip(e.Code, maxID)", "v.codeOr(e.Code)",
}

var (
	codeConstant = regexp.MustCompile(`^(openai(api)?\.)?Code[A-Z]\w+$`)
	// variables, parameters and members that hold codes
	codeLike   = regexp.MustCompile(`^(code[A-Z]\w*|code|Code|\w+Code)$`)
	errorTypes = regexp.MustCompile(`^((openai(api)?|provider)\.)?(Error|TuningError|Problem|answer|localReply)$`)
	typeNames  = map[string]string{"openai.TypeInvalidRequest": openai.TypeInvalidRequest,
		"openai.TypeServer":   openai.TypeServer,
		"openai.TypeRequests": openai.TypeRequests, "openai.TypeTokens": openai.TypeTokens,
		"openai.TypeInsufficientQuota": openai.TypeInsufficientQuota,
		// as the local replies of Envoy call them
		"clients": openai.TypeInvalidRequest, "ours": openai.TypeServer}
	statuses = statusNames()
)

// statusNames returns the numbers of statuses as they are written: 404 and http.StatusNotFound.
func statusNames() map[string]int {
	numbers := map[string]int{}
	for n := 400; n < 600; n++ {
		numbers[strconv.Itoa(n)] = n
		numbers["http.Status"+strings.ReplaceAll(http.StatusText(n), " ", "")] = n
	}
	return numbers
}

// A sifter looks at what a package makes codes of.
type sifter struct {
	entries  map[string]openai.Entry // by the names of the constants
	set      *token.FileSet
	makers   map[string]int // the place of the code among the arguments of a function
	used     map[string]bool
	mistakes []string
}

func newSifter(entries map[string]openai.Entry) *sifter {
	return &sifter{entries: entries, set: token.NewFileSet(), makers: map[string]int{}, used: map[string]bool{}}
}

// TestCodesAreMadeInTheCatalogue fails for a code that is written as a text in place of a constant of api/openai, for
// a status or a type that the catalogue does not have, and for a code that nobody makes.
func TestCodesAreMadeInTheCatalogue(t *testing.T) {
	s := newSifter(catalogued(t))
	dirs := map[string][]*ast.File{}
	for _, p := range packages(t) {
		if matchesAny(others, p.name()) {
			continue
		}
		for _, name := range p.GoFiles {
			if p.name() == "api/openai" && (name == "codes.go" || name == "catalogue.go") {
				continue
			}
			f, err := parser.ParseFile(s.set, filepath.Join(p.Dir, name), nil, 0)
			require.NoError(t, err)
			dirs[p.name()] = append(dirs[p.name()], f)
			s.learn(p.name(), f)
		}
	}
	for dir, files := range dirs {
		for _, f := range files {
			s.sift(dir, f)
		}
	}
	require.Empty(t, s.mistakes)
	for name := range s.entries {
		require.True(t, s.used[name], "nobody makes %s: take it out of the catalogue", name)
	}
}

// TestSifterFindsWhatItShould proves that the test above can fail.
func TestSifterFindsWhatItShould(t *testing.T) {
	for text, want := range map[string]string{
		`var e = &openai.Error{Status: 404, Type: openai.TypeInvalidRequest, Code: "model_not_fuond"}`:            `"model_not_fuond" is no constant`,
		`var e = &openai.Error{Status: http.StatusGone, Type: openai.TypeInvalidRequest, Code: openai.CodeInUse}`: "another status",
		`var e = &openai.Error{Status: 409, Type: openai.TypeServer, Code: openai.CodeInUse}`:                     "another type",
		`var e = &openai.Error{Code: elsewhere}`:                                                                  "elsewhere is no constant",
		`var e = openai.BadRequest("n", "typo", "")`:                                                              `"typo" is no constant`,
		`var e = openai.BadRequest("n", openai.CodeInUse, "")`:                                                    "another status",
		`var e = openai.BadRequest("n", cmp.Or(code, "typo"), "")`:                                                `"typo" is no constant`,
		`var e = mine("typo")`:                                                                        `"typo" is no constant`,
		`var l = []localReply{{status: 503, code: "typo"}}`:                                           `"typo" is no constant`,
		`var l = []localReply{{errorType: ours, code: openai.CodeUpgradeRequired}}`:                   "another type",
		`func f(e *openai.Error) { e.Status, e.Code = 500, openai.CodeInUse }`:                        "another status",
		`func f(e *openai.Error) { e.Type, e.Code = openai.TypeServer, openai.CodeInUse }`:            "another type",
		`var d = Dialect{Codes: map[string]string{"a": "typo"}}`:                                      `"typo" is no constant`,
		`var codes = map[string]string{"a": "typo"}`:                                                  `"typo" is no constant`,
		`const codeMine = "typo"`:                                                                     `"typo" is no constant`,
		`func f(e *openai.Error) { e.Param, e.Code = "", "typo" }`:                                    `"typo" is no constant`,
		`func f(e *openai.Error) { e.Code = elsewhere }`:                                              "elsewhere is no constant",
		`func f(e *openai.Error) bool { return e.Code == "in_use" }`:                                  `"in_use" is no constant`,
		`var e = &openai.Error{Status: 409, Type: openai.TypeInvalidRequest, Code: openai.CodeInUse}`: "",
		`func f(e *openai.Error) bool { return e.Code == "a vendor's" }`:                              "",
	} {
		s := newSifter(catalogued(t))
		f, err := parser.ParseFile(s.set, "x.go",
			"package x\nfunc mine(code string)\nfunc BadRequest(param, code, format string)\n"+text, 0)
		require.NoError(t, err)
		s.learn("x", f)
		s.sift("x", f)
		if want == "" {
			require.Empty(t, s.mistakes, text)
			continue
		}
		require.Len(t, s.mistakes, 1, text)
		require.Contains(t, s.mistakes[0], want, text)
	}
}

// catalogued returns what the catalogue says, by the names of the constants.
func catalogued(t *testing.T) map[string]openai.Entry {
	t.Helper()
	listed := map[string]openai.Entry{}
	for _, section := range openai.Catalogue() {
		for _, e := range section.Entries {
			require.NotContains(t, listed, e.Code, "the catalogue has a code twice")
			listed[e.Code] = e
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "api/openai/codes.go", nil, 0)
	require.NoError(t, err)
	named := map[string]openai.Entry{}
	for _, spec := range f.Decls[0].(*ast.GenDecl).Specs {
		constant := spec.(*ast.ValueSpec)
		code, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		require.Contains(t, listed, code, "the catalogue does not say what the code means")
		named[constant.Names[0].Name] = listed[code]
	}
	return named
}

// learn notes the functions that take a code.
func (s *sifter) learn(dir string, f *ast.File) {
	for _, d := range f.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		at := 0
		for _, p := range function.Type.Params.List {
			for _, name := range p.Names {
				if typ, ok := p.Type.(*ast.Ident); ok && typ.Name == "string" && codeLike.MatchString(name.Name) {
					s.makers[key(dir, function.Name.Name)] = at
				}
				at++
			}
		}
	}
}

// key is how a function is known: one that is exported everywhere, another in its package.
func key(dir, name string) string {
	if ast.IsExported(name) {
		return name
	}
	return dir + "." + name
}

func (s *sifter) sift(dir string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			s.used[n.Name] = true
		case *ast.CompositeLit:
			s.literal(n)
		case *ast.CallExpr:
			if at, ok := s.makers[key(dir, called(n))]; ok && at < len(n.Args) {
				s.code(n.Args[at], true)
				if called(n) == "BadRequest" {
					s.agrees(n.Args[at], "400", "openai.TypeInvalidRequest")
				}
			}
		case *ast.BinaryExpr:
			if named(n.X) && (n.Op == token.EQL || n.Op == token.NEQ) {
				s.compared(n.Y)
			}
		case *ast.AssignStmt:
			s.assigned(n)
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if name.Name == "codes" && i < len(n.Values) {
					s.table(n.Values[i])
				}
				if named(name) && i < len(n.Values) && !codeConstant.MatchString(name.Name) {
					s.code(n.Values[i], false)
				}
			}
		}
		return true
	})
}

// assigned looks at codes that are set, and at the status and the type that are set with them.
func (s *sifter) assigned(a *ast.AssignStmt) {
	if len(a.Lhs) != len(a.Rhs) {
		return
	}
	members := map[string]ast.Expr{}
	for i, to := range a.Lhs {
		member, ok := to.(*ast.SelectorExpr)
		if ok {
			members[member.Sel.Name] = a.Rhs[i]
		}
		if named(to) {
			s.code(a.Rhs[i], ok && member.Sel.Name == "Code")
		}
	}
	if code := members["Code"]; code != nil {
		s.agrees(code, written(members["Status"]), written(members["Type"]))
	}
}

// named reports whether an expression is a variable or a member that holds a code.
func named(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return codeLike.MatchString(e.Name)
	case *ast.SelectorExpr:
		return codeLike.MatchString(e.Sel.Name)
	}
	return false
}

func written(e ast.Expr) string {
	if e == nil {
		return ""
	}
	return strings.Replace(types.ExprString(e), "openaiapi.", "openai.", 1)
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literal looks at an error, and at a table of codes by vendors' words.
func (s *sifter) literal(c *ast.CompositeLit) {
	members := map[string]ast.Expr{}
	for _, element := range c.Elts {
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			members[strings.ToLower(types.ExprString(kv.Key))] = kv.Value
		}
	}
	s.table(members["codes"])
	if code := members["code"]; code != nil && (c.Type == nil || errorTypes.MatchString(types.ExprString(c.Type))) {
		s.code(code, true)
		s.agrees(code, written(members["status"]), written(cmp.Or(members["type"], members["errortype"])))
	}
}

// table looks at the codes for vendors' words.
func (s *sifter) table(e ast.Expr) {
	if table, ok := e.(*ast.CompositeLit); ok {
		for _, e := range table.Elts {
			s.code(e.(*ast.KeyValueExpr).Value, true)
		}
	}
}

// code takes a constant of the catalogue, none, and what is called a code; where it is that of an error, else only
// what passes.
func (s *sifter) code(e ast.Expr, ofError bool) {
	text := types.ExprString(e)
	switch e := e.(type) {
	case *ast.CompositeLit, *ast.StarExpr: // of another function of the same name
		return
	case *ast.CallExpr:
		if text := types.ExprString(e.Fun); text == "cmp.Or" {
			for _, argument := range e.Args {
				s.code(argument, ofError)
			}
			return
		}
	}
	literal, _ := e.(*ast.BasicLit)
	isText := literal != nil && literal.Kind == token.STRING && text != `""`
	known := codeConstant.MatchString(text) || named(e) || text == `""` || slices.Contains(passed, text)
	if isText || ofError && !known {
		s.mistake(e, text+" is no constant of the catalogue of codes")
	}
}

// compared takes what is no code of the catalogue: vendors have words of their own.
func (s *sifter) compared(e ast.Expr) {
	for _, entry := range s.entries {
		if types.ExprString(e) == strconv.Quote(entry.Code) {
			s.code(e, true)
		}
	}
}

// agrees compares the status and the type that are written beside a code with those of the catalogue.
func (s *sifter) agrees(code ast.Expr, status, typ string) {
	_, constant, _ := strings.Cut(types.ExprString(code), ".")
	entry, ok := s.entries[constant]
	if n := statuses[status]; ok && n != 0 && !slices.Contains(entry.Status, n) {
		s.mistake(code, "the catalogue has another status for "+entry.Code)
	}
	if name := typeNames[typ]; ok && name != "" && !slices.Contains(entry.Types, name) {
		s.mistake(code, "the catalogue has another type for "+entry.Code)
	}
}

func (s *sifter) mistake(at ast.Node, what string) {
	s.mistakes = append(s.mistakes, s.set.Position(at.Pos()).String()+": "+what)
}
