package config

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
)

func TestTarget(t *testing.T) {
	no := false
	of := func(p *configv1.Provider) *Provider { return &Provider{Config: p} }
	target := func(p, m string, priority uint32) *configv1.Target {
		return &configv1.Target{Provider: p, Model: m, Priority: priority}
	}
	c := &Config{
		Providers: map[string]*Provider{
			"open":   of(&configv1.Provider{Name: "open"}),
			"strict": of(&configv1.Provider{Name: "strict", AllowUnlistedModels: &no, Models: []string{"named"}}),
		},
		Models: map[string]*configv1.Model{
			"fallback": {Targets: []*configv1.Target{target("strict", "second", 1), target("open", "first", 0),
				target("open", "equal", 0)}},
			"partly":   {Targets: []*configv1.Target{target("off", "first", 0), target("strict", "second", 1)}},
			"nowhere":  {Targets: []*configv1.Target{target("off", "first", 0)}},
			"open/own": {Targets: []*configv1.Target{target("strict", "other", 0)}},
		},
	}
	for model, want := range map[string]string{
		"fallback": "open first", "partly": "strict second", "nowhere": "", "open/own": "strict other",
		"open/a/b": "open a/b", "open/": "", "open": "", "": "", "/": "", "off/x": "", "strict/named": "strict named",
		"strict/other": "",
	} {
		p, upstream, ok := c.Target(model)
		require.Equal(t, want != "", ok, model)
		if ok {
			require.Equal(t, want, p.Config.GetName()+" "+upstream, model)
		}
	}
	_, _, ok := (*Config)(nil).Target("open/x")
	require.False(t, ok, "there is no configuration yet")
}

func TestNothingIsRefusedAndOnlyWhatCanBeUsedIsKept(t *testing.T) {
	nowhere, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = nowhere.Close() })
	core, logs := observer.New(zap.InfoLevel)
	c := New(Options{XDS: nowhere, NodeID: "n", Vendors: map[string]provider.Provider{"openai": {Name: "openai"}},
		Logger: zap.New(core), Registerer: prometheus.NewRegistry()})
	require.Nil(t, c.Current())
	waits := make(chan *Config)
	go func() {
		c.Await(t.Context())
		waits <- c.Current()
	}()

	providers, hooks := c.providersHandler(), c.hooksHandler()
	providers.Fork()
	for _, p := range []*configv1.Provider{
		{Name: "a", Vendor: "openai"}, {Name: "newer", Vendor: "of tomorrow"},
		{Name: "off", Vendor: "openai", Disabled: true},
	} {
		require.NoError(t, providers.Set(p.GetName(), p))
	}
	for _, name := range []string{"z", "b", "off"} {
		require.NoError(t, hooks.Set(name, &configv1.Webhook{Name: name, Disabled: name == "off"}))
	}
	c.publish("1")
	require.NotNil(t, c.Current())
	first := c.Current()
	require.Same(t, first, <-waits, "who waits gets it")
	require.Len(t, first.Providers, 1)
	require.Equal(t, "openai", first.Providers["a"].Vendor.Name)
	require.Equal(t, []string{"b", "z"}, []string{first.Webhooks[0].GetName(), first.Webhooks[1].GetName()})
	require.Len(t, first.Webhooks, 2)
	require.Equal(t, 1, logs.FilterMessageSnippet("not known to this version").Len())

	providers.Fork()
	require.NoError(t, providers.Set("a", &configv1.Provider{Name: "a", Vendor: "of tomorrow"}),
		"it has changed its vendor")
	hooks.Remove("b")
	require.NoError(t, hooks.Set("z", &configv1.Webhook{Name: "z", Disabled: true}))
	c.publish("2")
	require.Empty(t, c.Current().Providers)
	require.Empty(t, c.Current().Webhooks)
	require.Len(t, first.Providers, 1, "what others hold does not change")
	require.Len(t, first.Webhooks, 2)
}
