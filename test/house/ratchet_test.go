package house_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/golden"
)

// The bounds of types and packages. Generated code and tests do not count.
const (
	mostMethods = 40
	mostFiles   = 30
	mostLines   = 5000
	mostBack    = 20 // percent of the arrows between the files of a package
	fewFiles    = 10 // a package with so few files is seen at a glance, in whatever order
)

// exceptions is the list of what is larger than the bounds. It only shrinks: a figure above its line fails, and so
// does a line above its figure. The flag -update writes it if no figure grew.
const exceptions = "test/house/exceptions.txt"

func TestTypesAndPackagesStaySmall(t *testing.T) {
	now := map[string]int{}
	for _, p := range packages(t) {
		maps.Copy(now, oversized(t, p))
	}
	allowed := readExceptions(t)
	for what, figure := range now {
		require.LessOrEqual(t, figure, allowed[what], "%s is above its bound, or grew; cut it", what)
	}
	var list bytes.Buffer
	for _, what := range slices.Sorted(maps.Keys(now)) {
		fmt.Fprintf(&list, "%s %d\n", what, now[what])
	}
	golden.Bytes(t, exceptions, list.Bytes())
}

// oversized returns the figures of a package and its types that are above the bounds.
func oversized(t *testing.T, p listed) map[string]int {
	if matches("test/...", p.name()) {
		return nil
	}
	found := map[string]int{}
	above := func(what string, figure, bound int) {
		if figure > bound {
			found[what] = figure
		}
	}
	files := map[string]source{}
	lines := 0
	for _, name := range p.GoFiles {
		if s := parse(t, filepath.Join(p.Dir, name)); !s.generated {
			files[name] = s
			lines += bytes.Count(s.text, []byte("\n"))
		}
	}
	for typ, n := range methods(files) {
		above("methods "+p.name()+"."+typ, n, mostMethods)
	}
	above("files "+p.name(), len(files), mostFiles)
	above("lines "+p.name(), (lines+99)/100*100, mostLines) // in hundreds, so that a line is no new figure
	if all, back := arrows(files); len(files) > fewFiles {
		above("back "+p.name(), 100*back/all, mostBack)
	}
	return found
}

func methods(files map[string]source) map[string]int {
	n := map[string]int{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				n[receiver(f)]++
			}
		}
	}
	return n
}

// receiver returns the name of the type that has a method.
func receiver(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	switch g := of.(type) {
	case *ast.IndexExpr:
		of = g.X
	case *ast.IndexListExpr:
		of = g.X
	}
	return of.(*ast.Ident).Name
}

// arrows counts the pairs of files, one of which uses what the other declares, and those that run back in the order of
// the files in which the fewest do. The order is the greedy one of Eades, Lin and Smyth: it is not always the best.
func arrows(files map[string]source) (all, back int) {
	uses := leans(files)
	for _, to := range uses {
		all += len(to)
	}
	at := order(uses, files)
	for from, to := range uses {
		for f := range to {
			if at[f] < at[from] {
				back++
			}
		}
	}
	return all, back
}

// leans returns, for each file, the files whose declarations it names. A method counts if only one type, and no member
// of a struct, has its name.
func leans(files map[string]source) map[string]map[string]bool {
	home := map[string]string{}
	declare := func(name, file string) {
		if _, twice := home[name]; twice || name == "_" {
			file = ""
		}
		home[name] = file
	}
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if of, ok := n.(*ast.StructType); ok {
				for _, member := range of.Fields.List {
					for _, n := range member.Names {
						home["."+n.Name] = "" // no use of a method, wherever it is declared
					}
				}
			}
			return true
		})
	}
	for name, s := range files {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					declare("."+d.Name.Name, name)
				} else {
					declare(d.Name.Name, name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						declare(spec.Name.Name, name)
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							declare(n.Name, name)
						}
					}
				}
			}
		}
	}
	uses := map[string]map[string]bool{}
	for name, s := range files {
		uses[name] = map[string]bool{}
		use := func(what string) {
			if f := home[what]; f != "" && f != name {
				uses[name][f] = true
			}
		}
		imported, foreign := importsOf(s), foreignOf(s)
		var visit func(ast.Node) bool
		visit = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); !ok || !imported[x.Name] {
					use("." + n.Sel.Name)
					ast.Inspect(n.X, visit)
				}
				return false
			case *ast.FuncDecl: // its own name and that of its receiver's type are no use
				ast.Inspect(n.Type, visit)
				if n.Body != nil {
					ast.Inspect(n.Body, visit)
				}
				return false
			case *ast.Ident:
				if foreign[n] {
					use(n.Name)
				}
			}
			return true
		}
		ast.Inspect(s.file, visit)
	}
	return uses
}

// foreignOf returns the identifiers of a file that it does not declare itself. A variable, a parameter, and a member
// that a literal sets may have the name of what another file declares.
func foreignOf(s source) map[*ast.Ident]bool {
	foreign := map[*ast.Ident]bool{}
	for _, id := range s.file.Unresolved {
		foreign[id] = true
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch lit.Type.(type) {
		case *ast.MapType, *ast.ArrayType: // the keys are values
			return true
		}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok {
					delete(foreign, key)
				}
			}
		}
		return true
	})
	return foreign
}

// importsOf returns the names by which a file knows other packages.
func importsOf(s source) map[string]bool {
	names := map[string]bool{}
	for _, i := range s.file.Imports {
		name := path.Base(strings.Trim(i.Path.Value, `"`))
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = true
	}
	return names
}

// order returns the place of each file.
func order(uses map[string]map[string]bool, files map[string]source) map[string]int {
	left := slices.Sorted(maps.Keys(files))
	at := map[string]int{}
	first, last := 0, len(left)-1
	take := func(i, place int) {
		at[left[i]] = place
		left = slices.Delete(left, i, i+1)
	}
	for len(left) > 0 {
		best, most := 0, -len(files)
		taken := false
		for i, f := range left {
			out, in := 0, 0
			for _, g := range left {
				if uses[f][g] {
					out++
				}
				if uses[g][f] {
					in++
				}
			}
			if out == 0 {
				take(i, last)
				last--
				taken = true
				break
			}
			if out-in > most {
				best, most = i, out-in
			}
		}
		if !taken {
			take(best, first)
			first++
		}
	}
	return at
}

// readExceptions returns the figures that are allowed although they are above the bounds.
func readExceptions(t *testing.T) map[string]int {
	f, err := os.Open(exceptions)
	require.NoError(t, err)
	defer f.Close()
	allowed := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		at := strings.LastIndexByte(lines.Text(), ' ')
		require.Positive(t, at, lines.Text())
		var figure int
		_, err := fmt.Sscan(lines.Text()[at+1:], &figure)
		require.NoError(t, err)
		allowed[lines.Text()[:at]] = figure
	}
	return allowed
}

// TestArrowsRunBackOnlyInCircles proves that the count above finds a circle, and only that.
func TestArrowsRunBackOnlyInCircles(t *testing.T) {
	dir := t.TempDir()
	read := func(name, text string) source {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("package x\n"+text), 0o600))
		return parse(t, path)
	}
	straight := map[string]source{
		"a.go": read("a.go", "type T struct{}\nfunc (t T) Start() { t.middle(); last() }"),
		"b.go": read("b.go", "func (t T) middle() { last() }"),
		"c.go": read("c.go", "func last() {}"),
	}
	all, back := arrows(straight)
	require.Equal(t, []int{3, 0}, []int{all, back})
	require.Equal(t, map[string]int{"T": 2}, methods(straight))
	straight["c.go"] = read("c.go", "func last() { T{}.middle() }")
	all, back = arrows(straight)
	require.Equal(t, 5, all)
	require.Equal(t, 2, back)

	straight["c.go"] = read("c.go", "type s struct{ T int }\nfunc last() { T := 1; _ = s{T: T} }")
	_, back = arrows(straight)
	require.Zero(t, back, "a variable and a member of the same name are no use")
}
