package configv1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestQuotasHaveDefaults(t *testing.T) {
	project := configv1.QuotasOf(&configv1.Project{Name: "a/b", Quotas: &configv1.Quotas{Files: 3}})
	require.EqualValues(t, 3, project.GetFiles())
	require.EqualValues(t, 300, project.GetWritesPerMinute())
	require.EqualValues(t, 1200, configv1.QuotasOf(&configv1.Organization{Name: "a"}).Get("writes_per_minute"))
	require.Zero(t, project.Get("nothing"))
}

func TestQuotasHaveBounds(t *testing.T) {
	requireFields(t, configv1.Validate(&configv1.Organization{Name: "a", Quotas: &configv1.Quotas{FileBytes: 1 << 51}},
		knownVendor), "quotas.file_bytes")
	requireFields(t, configv1.Validate(&configv1.Project{Name: "a/b",
		Quotas: &configv1.Quotas{WritesPerMinute: 1_000_001}}, knownVendor), "quotas.writes_per_minute")
}

func TestWebhooksAreBounded(t *testing.T) {
	hook := func(name, organization, project string) configv1.Object {
		return &configv1.Webhook{Name: name, Organization: organization, Project: project}
	}
	set := []configv1.Object{
		&configv1.Project{Name: "a/b", Quotas: &configv1.Quotas{Webhooks: 1}},
		&configv1.Organization{Name: "a", Quotas: &configv1.Quotas{Webhooks: 2}},
		hook("one", "a", "b"), hook("two", "a", ""),
	}
	require.Empty(t, configv1.ValidateSet(set))
	require.ErrorContains(t, configv1.ValidateSet(append(set, hook("three", "a", "b"))).Err(),
		"quota 'webhooks' of Project a/b, which is 1")
	require.ErrorContains(t, configv1.ValidateSet(append(set, hook("three", "a", "c"))).Err(),
		"quota 'webhooks' of Organization a, which is 2")
	for i := range 21 {
		set = append(set, hook(string(rune('A'+i)), "", ""))
	}
	require.ErrorContains(t, configv1.ValidateSet(set).Err(), "keys without an organization")
	require.Empty(t, configv1.ValidateSet(set[:len(set)-1]))
}
