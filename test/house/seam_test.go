package house_test

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"testing"
)

// seam is what serves an exchange, whatever the transport: it may run inside Envoy.
var seam = []string{"extproc/carrier", "extproc/exchange", "extproc/chain", "extproc/filters/*", "extproc/passages/*",
	"extproc/answer", "extproc/judge", "extproc/account", "extproc/call", "extproc/routing", "extproc/metering",
	"extproc/access", "extproc/message", "extproc/again"}

// TestWhatServesAnExchangeEndsNoProcess: it starts no goroutine of its own, whose panic nobody would see, and ends the
// process nowhere.
func TestWhatServesAnExchangeEndsNoProcess(t *testing.T) {
	ends := map[string]bool{"os.Exit": true, "log.Fatal": true, "runtime.Goexit": true}
	seen := 0
	for _, p := range packages(t) {
		if !matchesAny(seam, p.name()) {
			continue
		}
		seen++
		for _, name := range p.GoFiles {
			at := filepath.Join(p.name(), name)
			ast.Inspect(parse(t, filepath.Join(p.Dir, name)).file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine: its link has Go", at)
				case *ast.SelectorExpr:
					if ends[types.ExprString(n)] || n.Sel.Name == "Fatal" {
						t.Errorf("%s ends the process with %s", at, types.ExprString(n))
					}
				}
				return true
			})
		}
	}
	if seen < len(seam) {
		t.Errorf("%d packages: one of the list is gone", seen)
	}
}
