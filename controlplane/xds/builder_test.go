package xds

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A changing configuration, for tests: what of it changes is another message.
type changing struct {
	random *rand.Rand
	Input
}

func (c *changing) change() {
	name := fmt.Sprint("n", c.random.IntN(4))
	switch c.random.IntN(5) {
	case 0:
		p := &configv1.Provider{Name: name, Vendor: []string{"openai", "anthropic", "nobody"}[c.random.IntN(3)],
			Disabled: c.random.IntN(4) == 0}
		if c.random.IntN(3) == 0 { // which every other provider's retries strip
			p.Headers = map[string]string{fmt.Sprint("x-", name): "v"}
		}
		c.Providers = put(c, c.Providers, &configv1.ResolvedProvider{Name: name, Provider: p,
			Waiting: c.random.IntN(5) == 0, Credential: fmt.Sprint(c.random.IntN(3))})
	case 1:
		m := &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: fmt.Sprint("n", c.random.IntN(4))}}}
		if c.random.IntN(5) == 0 {
			m.Targets = nil
		}
		c.Models = put(c, c.Models, m)
	case 2:
		c.Gateways = put(c, c.Gateways, &configv1.Gateway{Name: name, Port: 1000 + uint32(c.random.IntN(3))})
	case 3:
		c.Routes = put(c, c.Routes, &configv1.Route{Name: name, PathPrefix: "/" + name, Provider: name})
	case 4:
		if len(c.Models) > 0 {
			i := c.random.IntN(len(c.Models))
			c.Models[i] = proto.CloneOf(c.Models[i]) // says the same
		}
	}
}

// put puts an object in the place of the one of its name, or removes that.
func put[M configv1.Object](c *changing, all []M, o M) []M {
	var next []M
	for _, other := range all {
		if other.GetName() != o.GetName() {
			next = append(next, other)
		}
	}
	if len(next) < len(all) && c.random.IntN(3) == 0 {
		return next
	}
	return append(next, o)
}

func TestWhatIsRememberedIsWhatWouldBeBuilt(t *testing.T) {
	c := &changing{random: rand.New(rand.NewPCG(1, 2))}
	m := NewBuilder(testOptions())
	wrong := 0
	for range 300 {
		for range c.random.IntN(3) {
			c.change()
		}
		objects, errs := m.Build(c.Input)
		var resources []Resource
		for _, built := range objects {
			require.NotEmpty(t, built.Resources)
			resources = append(resources, built.Resources...)
		}
		sortResources(resources)
		want, wantErrs := Build(c.Input, testOptions())
		require.Equal(t, texts(wantErrs), texts(errs))
		require.Equal(t, bytesOf(t, want), bytesOf(t, resources))
		all := 1 + len(c.Providers) + len(c.Models) + len(c.Routes) + len(c.Gateways)
		require.Len(t, m.known, all, "what is gone is forgotten")
		wrong += len(errs)
	}
	require.NotZero(t, wrong, "errors are remembered too")
}

func TestOnlyWhatHasChangedIsBuilt(t *testing.T) {
	m := NewBuilder(testOptions())
	a, b := &configv1.Model{Name: "a", Targets: []*configv1.Target{{Provider: "p"}}}, &configv1.Model{Name: "b",
		Targets: []*configv1.Target{{Provider: "p"}}}
	of := func(objects []*Built, _ []ObjectError) map[string]*Built {
		byName := map[string]*Built{}
		for _, built := range objects {
			byName[built.Object.Name] = built
		}
		return byName
	}
	before := of(m.Build(Input{Models: []*configv1.Model{a, b}}))
	after := of(m.Build(Input{Models: []*configv1.Model{proto.CloneOf(a), b}}))
	require.NotSame(t, before["a"], after["a"])
	require.Same(t, before["b"], after["b"])
}

func texts(errs []ObjectError) (out []string) {
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

func bytesOf(t *testing.T, rs []Resource) (out []string) {
	t.Helper()
	for _, r := range rs {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Message)
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%s %s %s %s %x", r.Role, r.Type, r.Name, r.Owner, text))
	}
	return out
}
