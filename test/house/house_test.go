// Package house_test checks the rules of this codebase that a compiler does not: who imports whom, what every
// package says of itself, how large files get.
//
// An import that the table below does not allow is a question to the design, not to the table.
package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const module = "github.com/modelgate/modelgate"

// A rule says what the packages that match may import: of this module, and of other modules. Patterns are as for
// path.Match, and "/..." at the end means the package and all below it. The first rule that matches a package holds.
type rule struct {
	packages string
	ours     []string
	others   []string // nil: any
}

var (
	none     = []string{}
	protobuf = []string{"google.golang.org/protobuf/..."}
)

// table is the one place that says which way imports go. Services know domains, domains know formats, formats know
// bytes.
var table = []rule{
	{"cmd/modelgate/...", []string{"..."}, nil},
	{"test/...", []string{"..."}, nil},

	{"allinone", []string{"controlplane", "controlplane/app", "controlplane/dashboard", "controlplane/firststart",
		"controlplane/ledger", "envoy/bootstrap", "envoy/process", "extproc", "extproc/app", "jobsvc", "jobsvc/app",
		"api/...", "internal/..."}, nil},
	{"controlplane/xds/...", []string{"api/config/...", "api/openai", "envoy", "internal/inbound/...",
		"internal/provider/...", "internal/secret"}, nil},
	{"jobsvc/job/...", []string{"api/openai"}, none},
	{"extproc/wire", []string{"extproc/carrier", "extproc/exchange", "extproc/message", "extproc/routing", "envoy"}, nil},
	{"extproc/carrier", []string{"extproc/again", "extproc/exchange", "extproc/metering", "extproc/routing", "envoy"},
		none},
	{"extproc/message", none, none},
	{"extproc/again", []string{"extproc/message", "envoy"}, none},
	{"extproc/bodies", []string{"api/...", "internal/..."}, nil},
	{"extproc/transport", none, []string{"golang.org/x/net/http2/...", "google.golang.org/grpc/codes",
		"google.golang.org/grpc/status"}},
	{"extproc/access", []string{"extproc/bodies", "extproc/message", "api/...", "internal/..."}, nil},
	{"extproc/routing", []string{"extproc/access", "extproc/message", "extproc/metering", "api/...", "envoy",
		"internal/..."}, nil},
	{"extproc/metering", []string{"api/...", "internal/..."}, nil},
	{"extproc/call", []string{"extproc/access", "extproc/again", "extproc/bodies", "extproc/message", "extproc/metering",
		"extproc/routing", "api/...", "internal/..."}, nil},
	{"extproc/account", []string{"extproc/access", "extproc/call", "extproc/metering", "extproc/routing", "api/...",
		"internal/..."}, nil},
	{"extproc/filters/*", []string{"extproc/access", "extproc/account", "extproc/bodies", "extproc/call",
		"extproc/metering", "extproc/routing", "api/...", "envoy", "internal/..."}, nil},
	{"extproc/judge", []string{"extproc/account", "extproc/call", "extproc/filters/policies", "extproc/routing",
		"api/...", "internal/..."}, nil},
	{"extproc/answer", []string{"extproc/account", "extproc/call", "extproc/metering", "extproc/routing", "api/...",
		"envoy", "internal/..."}, nil},
	{"extproc/passages/*", []string{"extproc/access", "extproc/account", "extproc/again", "extproc/answer",
		"extproc/call", "extproc/judge", "extproc/metering", "extproc/routing", "api/...", "envoy", "internal/..."}, nil},
	{"extproc/chain", []string{"extproc/account", "extproc/answer", "extproc/call", "extproc/filters/*",
		"extproc/passages/*", "extproc/routing", "api/...", "envoy", "internal/..."}, nil},
	{"extproc/exchange", []string{"extproc/account", "extproc/answer", "extproc/call", "extproc/chain",
		"extproc/filters/room", "extproc/message", "extproc/metering", "extproc/routing", "envoy"}, none},
	{"extproc/...", []string{"extproc/...", "api/...", "envoy", "internal/..."}, nil},
	{"controlplane/ledger/sqldb", []string{"api/openai", "internal/turns"},
		[]string{"github.com/jackc/pgx/...", "modernc.org/sqlite/..."}},
	{"controlplane/ledger/cachesums", []string{"controlplane/ledger/sqldb", "internal/usage"}, none},
	{"controlplane/ledger/params", []string{"api/admin", "api/openai", "controlplane/ledger/sqldb",
		"internal/httpapi"}, nil},
	{"controlplane/ledger/segstore", []string{"controlplane/ledger/segment", "controlplane/ledger/sqldb",
		"internal/blobstore", "internal/id"}, []string{"gocloud.dev/blob"}},
	{"controlplane/ledger/migrations", []string{"controlplane/ledger/segstore", "controlplane/ledger/sqldb",
		"controlplane/ledger/tallies"}, nil},
	{"controlplane/ledger/tallies", []string{"api/admin", "controlplane/ledger/segment", "controlplane/ledger/segstore",
		"controlplane/ledger/sqldb", "internal/usage"}, none},
	{"controlplane/ledger/histogram", nil, nil},
	{"controlplane/ledger/versions", []string{"api/admin", "controlplane/ledger/sqldb"}, nil},
	{"controlplane/ledger/segment", []string{"internal/usage"}, []string{"github.com/parquet-go/parquet-go/..."}},
	{"controlplane/redact", []string{"api/config/..."}, nil},
	{"controlplane/audit", []string{"controlplane/audit/auditchain", "controlplane/authz", "controlplane/ledger",
		"controlplane/redact", "api/...", "internal/..."}, nil},
	{"controlplane/audit/auditchain", []string{"api/..."}, nil},
	{"controlplane/queries", []string{"controlplane/accounts", "controlplane/attention", "controlplane/audit",
		"controlplane/authz", "controlplane/config", "controlplane/incidents", "controlplane/ledger",
		"controlplane/ledger/cachesums", "controlplane/ledger/params", "api/...", "internal/..."}, nil},
	{"controlplane/owned", []string{"api/...", "internal/..."}, nil},
	{"controlplane/config", []string{"controlplane/accounts", "controlplane/audit", "controlplane/authz",
		"controlplane/owned", "controlplane/redact", "controlplane/scim", "api/...", "internal/..."}, nil},
	{"controlplane/authz", []string{"controlplane/accounts", "api/...", "internal/..."}, nil},
	{"controlplane/dashboard/words", none, none},
	{"controlplane/dashboard/forms", []string{"api/...", "controlplane/dashboard/words"}, protobuf},
	{"controlplane/dashboard/page", []string{"api/...", "controlplane/authz", "controlplane/dashboard/forms",
		"controlplane/dashboard/words", "internal/telemetry"}, nil},
	{"controlplane/dashboard/figures", []string{"api/...", "controlplane/authz", "controlplane/dashboard/*"}, none},
	{"controlplane/dashboard/sections/*", []string{"api/...", "controlplane/authz", "controlplane/dashboard/*",
		"internal/catalog", "internal/httpapi"}, append([]string{"golang.org/x/sync/errgroup"}, protobuf...)},
	{"controlplane/...", []string{"controlplane/...", "api/...", "envoy", "internal/..."}, nil},
	{"jobsvc/...", []string{"jobsvc/...", "api/...", "envoy", "internal/..."}, nil},
	{"envoy/app", []string{"envoy/...", "internal/parts", "internal/proc"}, nil},
	{"envoy/...", []string{"envoy", "api/config/..."}, nil},

	{"internal/jsonwalk", none, []string{"github.com/go-json-experiment/json/jsontext"}},
	{"internal/reported", []string{"api/openai", "internal/jsonwalk"}, []string{"github.com/go-json-experiment/json/..."}},
	{"internal/chat", []string{"api/openai"}, []string{"github.com/go-json-experiment/json/..."}},
	{"internal/pipeline", []string{"api/openai", "internal/chat", "internal/provider"}, none},
	{"internal/inbound", []string{"api/openai", "internal/chat", "internal/provider"}, none},
	{"internal/inbound/dialects", []string{"api/openai", "internal/inbound", "internal/inbound/*"},
		[]string{"github.com/tidwall/gjson"}},
	{"internal/inbound/*", []string{"api/openai", "internal/chat", "internal/inbound", "internal/provider",
		"internal/provider/overchat", "internal/provider/reasoning", "internal/provider/schema",
		"internal/provider/forms", "internal/provider/private", "internal/jsonwalk",
		"internal/inbound/compose", "internal/inbound/kinds", "internal/inbound/openai"}, nil},
	{"internal/provider", []string{"api/...", "internal/chat", "internal/secret"}, nil},
	{"internal/provider/providertest", []string{"internal/...", "api/..."}, nil},
	{"internal/catalog", []string{"api/config/...", "internal/memo"}, nil},
	{"internal/provider/forms", none, none},
	{"internal/provider/private", none, none},
	{"internal/provider/all", []string{"api/config/v1", "internal/provider/..."}, none},
	{"internal/provider/vendors/*", []string{
		"internal/provider", "internal/provider/dialects/...", "internal/provider/fit", "internal/provider/forms",
		"internal/provider/private", "internal/provider/turns", "internal/provider/schema",
		"internal/provider/reasoning", "internal/provider/legacy", "internal/provider/tuning", "internal/chat", "api/...",
		"internal/jsonwalk", "internal/sse", "internal/eventstream", "internal/usage", "internal/reported",
		"internal/secret",
	}, nil},
	{"internal/provider/dialects/*", []string{
		"internal/provider", "internal/provider/dialects/...", "internal/provider/fit", "internal/provider/forms",
		"internal/provider/private", "internal/provider/turns", "internal/provider/schema",
		"internal/provider/reasoning", "internal/provider/legacy", "internal/provider/tuning", "internal/chat",
		"internal/inbound/openai", "internal/jsonwalk", "internal/pipeline", "api/...",
		"internal/sse", "internal/eventstream", "internal/usage", "internal/reported", "internal/secret",
	}, nil},
	{"internal/provider/*", []string{
		"internal/provider", "internal/provider/dialects/openaicompat", "internal/provider/fit",
		"internal/provider/forms", "internal/provider/turns", "internal/jsonwalk",
		"internal/provider/schema", "internal/provider/reasoning", "internal/provider/legacy", "internal/provider/tuning",
		"internal/chat", "api/...",
		"internal/sse", "internal/eventstream", "internal/usage", "internal/reported", "internal/secret",
	}, nil},

	{"internal/memo", none, none},
	{"internal/proc/...", []string{"internal/...", "api/...", "envoy/bootstrap"}, nil},
	{"internal/timing", none, none},
	{"internal/parts", none, []string{"go.uber.org/zap"}},
	{"internal/request", []string{"api/config/v1", "api/openai", "internal/inbound"},
		[]string{"github.com/tidwall/gjson"}},
	{"internal/sse", none, []string{"github.com/tidwall/gjson"}},
	{"internal/websocket", none, none},
	{"internal/eventstream", none, []string{"github.com/aws/aws-sdk-go-v2/..."}},
	{"internal/id", none, []string{"github.com/oklog/ulid/v2"}},
	{"internal/secret", none, []string{"golang.org/x/crypto/..."}},
	{"internal/golden", none, []string{"github.com/google/go-cmp/..."}},
	{"internal/testenv", []string{"envoy/process"}, none},
	{"internal/...", []string{"internal/...", "api/...", "envoy"}, nil},

	{"api/openai", []string{"internal/jsonwalk"}, []string{"github.com/go-json-experiment/json/..."}},
	{"api/config/expression", none, []string{"cel.dev/cel-go/..."}},
	{"api/config/...", []string{"api/config/..."}, []string{"cel.dev/cel-go/cel",
		"google.golang.org/protobuf/...", "sigs.k8s.io/yaml",
		"go.yaml.in/yaml/v3"}},
	{"api/ledger/...", none, append([]string{"google.golang.org/grpc/..."}, protobuf...)},
	{"api/...", []string{"api/..."}, protobuf},
}

// pure packages have no clock, context, store or logger. What the admin API asks knows no HTTP.
var pure = []rule{
	{packages: "controlplane/xds/...", others: []string{"context", "go.uber.org/zap/...", "go.etcd.io/...", "net/http",
		"os"}},
	{packages: "jobsvc/job/...", others: []string{"context", "os"}},
	{packages: "controlplane/ledger/segment", others: []string{"context", "database/sql", "net/http", "os"}},
	{packages: "controlplane/config", others: []string{"net/http"}},
	{packages: "controlplane/queries", others: []string{"net/http"}},
	{packages: "envoy/bootstrap", others: []string{"context", "go.uber.org/zap/...", "os"}},
}

// A listed package is what go list says of one.
type listed struct {
	Dir          string
	ImportPath   string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func (p listed) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func (p listed) allFiles() []string {
	return slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
}

// TestMain has the tests look at the whole module.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range packages(t) {
		if p.name() == "" {
			continue
		}
		i := slices.IndexFunc(table, func(r rule) bool { return matches(r.packages, p.name()) })
		if i < 0 {
			t.Errorf("%s: the table of imports has no rule for this package", p.name())
			continue
		}
		for _, imported := range p.Imports {
			if !allowed(table[i], imported) {
				t.Errorf("%s must not import %s", p.name(), imported)
			}
		}
	}
}

func TestPurePackagesDoNoInputAndOutput(t *testing.T) {
	for _, p := range packages(t) {
		for _, r := range pure {
			for _, imported := range p.Imports {
				if matches(r.packages, p.name()) && matchesAny(r.others, imported) {
					t.Errorf("%s is pure and must not import %s", p.name(), imported)
				}
			}
		}
	}
}

func allowed(r rule, imported string) bool {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		return matchesAny(r.ours, ours)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") { // the standard library
		return true
	}
	return r.others == nil || matchesAny(r.others, imported)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == prefix || strings.HasPrefix(name, prefix+"/")
	}
	ok, err := filepath.Match(pattern, name)
	return err == nil && ok
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for _, p := range packages(t) {
		files := p.GoFiles
		if len(files) == 0 { // a package that is nothing but tests
			files = p.allFiles()
		}
		var commented []string
		for _, name := range files {
			if parse(t, filepath.Join(p.Dir, name)).file.Doc != nil {
				commented = append(commented, name)
			}
		}
		if len(commented) != 1 && !allGenerated(t, p) {
			t.Errorf("%s: one file must hold the package comment, not %d %v", p.ImportPath, len(commented), commented)
		}
	}
}

func TestFilesAreWrittenByTheHouseRules(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.allFiles() {
			s := parse(t, filepath.Join(p.Dir, name))
			if s.generated {
				continue
			}
			at := filepath.Join(p.name(), name)
			if lines := bytes.Count(s.text, []byte("\n")); lines >= 500 {
				t.Errorf("%s has %d lines; a file has less than 500", at, lines)
			}
			if place := machinePath.FindString(string(s.text)); place != "" {
				t.Errorf("%s names a place on someone's machine: %s", at, place)
			}
			for _, line := range long(s) {
				t.Errorf("%s:%d: a line ends before column 120", at, line)
			}
			test := strings.HasSuffix(name, "_test.go") || matches("test/...", p.name())
			for _, found := range forbidden(s, p.name(), test) {
				t.Errorf("%s: %s", at, found)
			}
		}
	}
}

// long returns the numbers of the lines that reach column 120. Those with a string of 40 bytes or more, which is not
// broken, may be longer, and the spaces by which gofmt aligns a table do not count.
func long(s source) []int {
	strings := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && len(l.Value) >= 40 {
			for line := s.set.Position(l.Pos()).Line; line <= s.set.Position(l.End()).Line; line++ {
				strings[line] = true
			}
		}
		return true
	})
	var found []int
	for i, line := range bytes.Split(s.text, []byte("\n")) {
		if utf8.RuneCount(spaces.ReplaceAll(line, []byte(" "))) >= 120 && !strings[i+1] &&
			!bytes.HasPrefix(line, []byte("//go:")) {
			found = append(found, i+1)
		}
	}
	return found
}

var spaces = regexp.MustCompile(" {2,}")

// machinePath is a home or a place of work, written so that it does not match itself.
var machinePath = regexp.MustCompile(`["'\x60 (](/(?:home|Users|root|work|workspace)/[\w./-]*)`)

// skip are the names of what skips a test.
var skip = regexp.MustCompile(`^Skip(f|Now)?$`)

// forbidden returns what the file holds that no file may.
func forbidden(s source, in string, test bool) []string {
	var found []string
	// Within a bubble of synctest the clock is not the real one, and Sleep is how it is moved.
	bubble := slices.ContainsFunc(s.file.Imports,
		func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				found = append(found, "an init function: what runs must be visible where it is called")
			}
			if lines := s.lines(n); lines > 60 && !test {
				found = append(found, "the function "+n.Name.Name+" has more than 60 lines")
			}
		case *ast.CompositeLit:
			if code := memberOf(n, "Code"); !test && strings.HasPrefix(code, "openai.Code") && code != "openai.Code" {
				found = append(found, "an Error with the code "+code+": make it with New or On of the code")
			}
		case *ast.InterfaceType:
			if n.Methods.NumFields() >= 5 {
				found = append(found, "an interface has five methods or more")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && n.Sel.Name == "Sleep" && test && !bubble {
				found = append(found, "time.Sleep in a test: wait for what is to happen")
			}
			if skip.MatchString(n.Sel.Name) && in != "internal/testenv" {
				found = append(found, n.Sel.Name+": say with testenv what is missing or takes long")
			}
		}
		return true
	})
	return found
}

// memberOf returns the value of a member of a literal of openai.Error, as it is written.
func memberOf(c *ast.CompositeLit, name string) string {
	if c.Type == nil || types.ExprString(c.Type) != "openai.Error" {
		return ""
	}
	for _, e := range c.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && types.ExprString(kv.Key) == name {
			if _, ok := kv.Value.(*ast.SelectorExpr); ok {
				return types.ExprString(kv.Value)
			}
		}
	}
	return ""
}

// TestEveryCodeIsMade fails for a code that only the catalogue names.
func TestEveryCodeIsMade(t *testing.T) {
	made := map[string]bool{}
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			if p.name() == "api/openai" && (name == "codes.go" || name == "catalogue.go") {
				continue
			}
			ast.Inspect(parse(t, filepath.Join(p.Dir, name)).file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					made[id.Name] = true
				}
				return true
			})
		}
	}
	ast.Inspect(parse(t, "api/openai/codes.go").file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Code") {
			require.True(t, made[spec.Names[0].Name], "nobody makes %s: take it out of the catalogue", spec.Names[0].Name)
		}
		return true
	})
}

// A source is one parsed file.
type source struct {
	text      []byte
	set       *token.FileSet
	file      *ast.File
	generated bool
}

func (s source) lines(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

func parse(t *testing.T, path string) source {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	require.NoError(t, err)
	return source{text, set, file, ast.IsGenerated(file)}
}

func allGenerated(t *testing.T, p listed) bool {
	return !slices.ContainsFunc(p.GoFiles, func(name string) bool {
		return !parse(t, filepath.Join(p.Dir, name)).generated
	})
}

func TestTheTableRefusesWhatItShould(t *testing.T) {
	refused := map[string]string{
		"extproc/exchange":                 module + "/controlplane/xds",
		"internal/provider/vendors/openai": module + "/internal/provider/vendors/anthropic",
		"api/openai":                       "github.com/tidwall/gjson",
		"envoy/process":                    module + "/internal/certs",
		"internal/sse":                     module + "/api/openai",
		"controlplane/xds/listener":        module + "/internal/configstore",
	}
	for name, imported := range refused {
		i := slices.IndexFunc(table, func(r rule) bool { return matches(r.packages, name) })
		require.GreaterOrEqual(t, i, 0, name)
		require.False(t, allowed(table[i], imported), "%s -> %s", name, imported)
	}
}
