package routing

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

func testProviders(names ...string) *Table {
	c := &Table{Providers: map[string]*Provider{}, Models: map[string]*configv1.Model{}}
	for _, n := range names {
		c.Providers[n] = &Provider{Config: &configv1.Provider{Name: n}}
		c.Providers[n].nameClusters("")
	}
	return c
}

func names(targets []Target) string {
	var s []string
	for _, t := range targets {
		s = append(s, t.Provider.Config.GetName())
	}
	return strings.Join(s, " ")
}

func TestTargetsAreDrawnByPriorityAndWeight(t *testing.T) {
	c := testProviders("a", "b", "c", "d")
	c.Providers["d"].Config.Disabled = true
	m := &configv1.Model{Targets: []*configv1.Target{
		{Provider: "c", Priority: 1},
		{Provider: "a", Weight: 3},
		{Provider: "b"}, // weight 1
		{Provider: "d"},
		{Provider: "gone"},
	}}
	for lot, want := range []string{"a b c", "a b c", "a b c", "b a c"} {
		got := c.targets(m, func(n uint32) uint32 {
			require.EqualValues(t, 4, n, "one draw among the weights of equal priority")
			return uint32(lot)
		})
		require.Equal(t, want, names(got))
	}
}

func TestSpread(t *testing.T) {
	c := testProviders("a", "b")
	a, b := Target{Provider: c.Providers["a"]}, Target{Provider: c.Providers["b"]}
	two := []*configv1.Target{{Provider: "a"}, {Provider: "b"}}
	for _, test := range []struct {
		name    string
		targets []Target
		model   *configv1.Model
		want    string
		codes   string
	}{
		{"an unlisted model is tried twice, but not after a rate limit", []Target{a}, nil, "a/first a/retry",
			"408,500,502,503,504,529"},
		{"two targets, one attempt each", []Target{a, b}, &configv1.Model{Targets: two}, "a/first b/retry",
			"408,429,500,502,503,504,529"},
		{"one attempt", []Target{a, b}, &configv1.Model{Targets: two, Retry: &configv1.Retry{MaxAttempts: 1}}, "a/first",
			"408,429,500,502,503,504,529"},
		{"more attempts go round", []Target{a, b}, &configv1.Model{Targets: two, Retry: &configv1.Retry{MaxAttempts: 5}},
			"a/first b/retry a/retry b/retry a/retry", "408,429,500,502,503,504,529"},
		{"statuses of the operator's", []Target{a}, &configv1.Model{Retry: &configv1.Retry{StatusCodes: []uint32{418, 503}}},
			"a/first a/retry", "418,503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &Plan{Targets: test.targets}
			p.spread(test.model)
			var clusters []string
			for _, target := range p.Targets {
				clusters = append(clusters, target.Cluster)
			}
			require.Equal(t, test.want, strings.Join(clusters, " "))
			require.Equal(t, test.codes, p.Retry)
		})
	}
}

func TestFirstByteIsTheModelsOrThatOfTheMostPatientProvider(t *testing.T) {
	c := testProviders("a", "b")
	targets := []Target{{Provider: c.Providers["a"]}, {Provider: c.Providers["b"]}}
	require.Equal(t, 2*time.Minute, attemptTimeout(nil, targets))
	c.Providers["a"].Config.Timeouts = &configv1.Timeouts{FirstByte: durationpb.New(time.Second)}
	require.Equal(t, 2*time.Minute, attemptTimeout(nil, targets), "b has the default")
	c.Providers["b"].Config.Timeouts = &configv1.Timeouts{FirstByte: durationpb.New(10 * time.Minute)}
	require.Equal(t, 10*time.Minute, attemptTimeout(nil, targets))
	m := &configv1.Model{Timeouts: &configv1.Timeouts{FirstByte: durationpb.New(3 * time.Second)}}
	require.Equal(t, 3*time.Second, attemptTimeout(m, targets))
}

func TestUnlistedModels(t *testing.T) {
	c := testProviders("a")
	allow := func(v *bool, models ...string) {
		c.Providers["a"].Config.AllowUnlistedModels, c.Providers["a"].Config.Models = v, models
	}
	yes, no := true, false
	for _, test := range []struct {
		name    string
		allowed *bool
		model   string
		want    string
	}{
		{"by default", nil, "a/x/y", "x/y"},
		{"allowed", &yes, "a/x", "x"},
		{"not allowed", &no, "a/x", ""},
		{"not allowed, but listed", &no, "a/listed", "listed"},
		{"unknown provider", nil, "b/x", ""},
		{"bare name", nil, "a", ""},
		{"no model", nil, "a/", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			allow(test.allowed, "listed")
			_, model := c.unlisted(test.model)
			require.Equal(t, test.want, model)
		})
	}
	c.Providers["a"].Config.Disabled = true
	p, _ := c.unlisted("a/x")
	require.Nil(t, p, "disabled")
}

func TestAPlanNamesTheClustersOfThePlaceThatItIsSignedFor(t *testing.T) {
	p := &Provider{Config: &configv1.Provider{Name: "a"}}
	p.nameClusters("0a1b")
	require.Equal(t, "a/first/0a1b a/retry/0a1b", p.Cluster(1)+" "+p.Cluster(2))
}

// A builder says which requests it builds.
type builder struct {
	built  *[]string
	cannot string // the model that it refuses
}

func (b builder) Encode(_ *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if t.Model == b.cannot {
		return provider.Request{}, nil, openai.Unsupported("n", t.Model)
	}
	if !t.Unsent {
		*b.built = append(*b.built, t.Config.GetName())
	}
	return provider.Request{Path: "/"}, nil, nil
}

// A stopper is a request with a parameter that some models do not take.
type stopper []string

func (s stopper) Encode(_ *provider.Provider, t provider.Target) (provider.Request, provider.Answer, error) {
	if slices.Contains(s, t.Model) && !t.Last {
		return provider.Request{}, nil, openai.Unsupported("stop", t.Model)
	}
	return provider.Request{Path: "/"}, nil, nil
}

func TestAParameterIsLeftOutOnlyIfNoTargetTakesIt(t *testing.T) {
	for without, want := range map[string]string{"": "a b", "a": "b", "b": "a", "a b": "a b"} {
		config := testProviders("a", "b")
		p := &Plan{request: stopper(strings.Fields(without)), gates: &Gates{}, now: time.Now}
		for _, name := range []string{"a", "b"} {
			p.Targets = append(p.Targets, Target{Provider: config.Providers[name], Model: name})
		}
		_, _, err := p.choose(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, names(p.Targets), without)
	}
}

func TestARequestIsBuiltForTheTargetThatGetsIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		full   []string // the providers that have no place
		cannot string   // the provider that cannot honour the request
		order  string
		built  string
		free   bool
	}{
		{"the first", nil, "", "a b c", "a", true},
		{"the first has no place", []string{"a"}, "", "b a c", "b", true},
		{"the first cannot", nil, "a", "b c", "b", true},
		{"the first has no place, the second cannot", []string{"a"}, "b", "c a", "c", true},
		{"none has a place", []string{"a", "b", "c"}, "", "a b c", "a", false},
		{"none has a place, the first cannot", []string{"a", "b", "c"}, "a", "b c", "b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, gates := testProviders("a", "b", "c"), &Gates{}
			var built []string
			p := &Plan{request: builder{&built, c.cannot}, gates: gates, now: time.Now}
			for _, name := range []string{"a", "b", "c"} {
				of := config.Providers[name]
				of.Config.Concurrency = &configv1.Concurrency{MaxRequests: 1}
				of.Vendor.Sign = func(*provider.Request, provider.Signing) error { return nil }
				if slices.Contains(c.full, name) {
					_, ok := gates.place(of)
					require.True(t, ok)
				}
				p.Targets = append(p.Targets, Target{Provider: of, Model: name})
			}
			_, free, err := p.choose(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.free, free)
			require.Equal(t, c.order, names(p.Targets))
			require.Equal(t, c.built, strings.Join(built, " "))
			for _, name := range strings.Fields(c.order)[1:] {
				_, had := gates.place(config.Providers[name])
				require.Equal(t, !slices.Contains(c.full, name), had, "%s keeps no place that it does not need", name)
			}
			if c.cannot != "" && c.free {
				_, had := gates.place(config.Providers[c.cannot])
				require.Equal(t, !slices.Contains(c.full, c.cannot), had, "a place is given back")
			}
			p.spread(&configv1.Model{Retry: &configv1.Retry{MaxAttempts: 2}})
			_, err = p.Encode(2)
			require.NoError(t, err)
			require.Equal(t, strings.Join(strings.Fields(c.order)[:2], " "), strings.Join(built, " "),
				"a retry has its own built")
		})
	}
}
