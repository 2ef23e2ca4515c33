package modelgate_test

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ways are the functions that data passes, in their order. A function stands deeper than the one that calls it, itself
// or through others of its own package; what stands at the margin is reached over a network, a disk or a callback. A
// package is a room: on one way data comes into it once, and does not come back when it has left, but for the way out
// through those that it came in by.
var ways = map[string]string{
	"the body of a request": `
		extproc/transport.conn.take
			extproc/transport.Stream.deliver
				extproc/transport.Handler.Message
		extproc.leanHandler.Message
			extproc/wire.Message.Decode
			extproc.handler.take
		extproc.carrier.take
			extproc/exchange.Exchange.RequestBody
				internal/inbound.Operation.Parse
				extproc/routing.Table.Resolve
				extproc/routing.Table.Plan
				extproc/metering.DemandOf
				extproc/access.Book.Rules
				internal/limit.Limiter.Reserve`,
	"the request of one target": `
		extproc/routing.Plan.encode
			internal/inbound.Encoder.Encode
		internal/inbound/openai.chatRequest.Encode
			internal/provider.ChatCodec.Encode
		internal/provider/vendors/anthropic.codec.Encode
			internal/provider/dialects/messages.Encode`,
	"a chunk of an answer": `
		extproc/exchange.Exchange.ResponseBody
			internal/pipeline.Pipeline.Piece
				internal/provider.Stream.Decode
		internal/provider/dialects/messages.Stream.Decode
			internal/chat.Sink.Put`,
	"an event of an answer": `
		internal/pipeline.Pipeline.Put
			extproc/metering.Text.Put
			internal/inbound/openai.ChatStream.Put`,
	"a provider object": `
		controlplane/admin.server.try
			internal/configstore.Store.Apply
		controlplane.Server.build
			controlplane.resolver.resolve
				controlplane.resolver.provider
			controlplane/xds.Build
				controlplane/xds.builder.provider
		controlplane/snapshot.Publisher.Publish
		extproc.configClient.providers
			extproc/routing.NewProvider`,
	"a record of usage": `
		extproc/exchange.Exchange.finish
			extproc/metering.Record.SetCost
			extproc/metering.Record.Entry
		internal/usage.DiskSpool.End
			internal/usage.DiskSpool.write
		internal/usage.ship
			internal/usage.DiskSpool.next
		controlplane/ledger.service.Record
			controlplane/ledger.Ledger.Record
				controlplane/ledger.Ledger.addAggregates`,
}

func TestDataGoesOneWay(t *testing.T) {
	rooms := map[string]*room{}
	of := func(name string) *room {
		if rooms[name] == nil {
			rooms[name] = enter(t, name)
		}
		return rooms[name]
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			var callers []string // of the step at hand, outermost first
			left := map[string]bool{}
			var before []string // the packages of the callers of the step before
			for line := range strings.Lines(strings.Trim(way, "\n")) {
				depth := strings.LastIndexByte(line, '\t') - 1
				step := strings.TrimSpace(line)
				in, function := split(step)
				require.True(t, of(in).has(function), "%s is not there", step)
				require.LessOrEqual(t, depth, len(callers), step)
				callers = append(callers[:depth], step)
				if depth > 0 {
					caller, by := split(callers[depth-1])
					require.True(t, of(caller).calls(by, function), "%s does not lead to %s", callers[depth-1], step)
				}
				now := roomsOf(callers)
				for _, p := range before {
					left[p] = left[p] || !slices.Contains(now, p)
				}
				require.False(t, left[in], "%s is entered again by %s", in, step)
				before = now
			}
		})
	}
}

func roomsOf(steps []string) []string {
	var in []string
	for _, s := range steps {
		p, _ := split(s)
		in = append(in, p)
	}
	return in
}

// split returns the package of a function, and the rest of its name.
func split(step string) (in, function string) {
	at := strings.LastIndexByte(step, '/') + 1
	dot := strings.IndexByte(step[at:], '.')
	return step[:at+dot], step[at+dot+1:]
}

// A room is a package, by its functions.
type room struct {
	functions map[string][]string // by name: what they call, by the last part of the name
	members   map[string]bool     // Type.member of structs and interfaces
	named     map[string][]string // the functions that have a name, whatever their type
}

func enter(t *testing.T, name string) *room {
	r := &room{functions: map[string][]string{}, members: map[string]bool{}, named: map[string][]string{}}
	files, err := filepath.Glob(filepath.Join(name, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, d := range parse(t, path).file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				full := receiver(d) + d.Name.Name
				r.functions[full] = mentioned(d)
				r.named[d.Name.Name] = append(r.named[d.Name.Name], full)
			case *ast.GenDecl:
				r.declare(d)
			}
		}
	}
	return r
}

func (r *room) declare(d *ast.GenDecl) {
	if d.Tok != token.TYPE {
		return
	}
	for _, s := range d.Specs {
		s := s.(*ast.TypeSpec)
		var list *ast.FieldList
		switch of := s.Type.(type) {
		case *ast.StructType:
			list = of.Fields
		case *ast.InterfaceType:
			list = of.Methods
		default:
			continue
		}
		for _, f := range list.List {
			for _, n := range f.Names {
				r.members[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	if g, ok := of.(*ast.IndexExpr); ok {
		of = g.X
	}
	return of.(*ast.Ident).Name + "."
}

// mentioned returns the last parts of the names that a function calls or hands on, in their order.
func mentioned(d *ast.FuncDecl) []string {
	var names []string
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			names = append(names, n.Sel.Name)
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok {
				names = append(names, f.Name)
			}
		}
		return true
	})
	return names
}

func (r *room) has(function string) bool { return r.functions[function] != nil || r.members[function] }

// calls reports whether a function calls one with the last part of a name, itself or through others of the room.
func (r *room) calls(function, target string) bool {
	name := target[strings.LastIndexByte(target, '.')+1:]
	seen := map[string]bool{}
	for next := []string{function}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		for _, called := range r.functions[at] {
			if called == name {
				return true
			}
			next = append(next, r.named[called]...)
		}
	}
	return false
}

// TestAWayThatIsNoneIsFound holds the checks above to finding what they are there for.
func TestAWayThatIsNoneIsFound(t *testing.T) {
	r := enter(t, "extproc/exchange")
	require.True(t, r.calls("Exchange.RequestBody", "DemandOf"))
	require.True(t, r.calls("Exchange.RequestBody", "Limiter.Reserve"), "through others of the room")
	require.False(t, r.calls("Exchange.RequestBody", "routing.NewProvider"))
	require.False(t, r.has("Exchange.Gone"))
	in, function := split("extproc/routing.Table.Plan")
	require.Equal(t, []string{"extproc/routing", "Table.Plan"}, []string{in, function})
}
