package forms_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/forms"
)

func TestReadGoesByTheSchema(t *testing.T) {
	k := &configv1.Key{Name: "key_1", Models: []string{"old"}, Disabled: true, Project: "stays",
		ExpiresAt: timestamppb.Now(), Metadata: map[string]string{"old": "x"}}
	names := []string{"display_name", "models", "limits", "budgets", "expires_at", "metadata", "disabled"}
	f := url.Values{"display_name": {" Robot "}, "models": {"a, b\n\n c"}, "limit_amount": {"1,000", ""},
		"limit_domain": {"requests", "tokens"}, "limit_unit": {"SECOND", "DAY"}, "budget_day": {"$5"},
		"expires_at": {"2030-01-02T03:04:05"}, "metadata": {"team = a=b \n"}, "project": {"not asked for"}}
	require.NoError(t, forms.Read(f, k, names...))
	require.Equal(t, "Robot", k.GetDisplayName())
	require.Equal(t, []string{"a", "b", "c"}, k.GetModels())
	require.Equal(t, "1,000 requests per second", forms.LimitText(k.GetLimits()[0]))
	require.Len(t, k.GetLimits(), 1)
	require.Equal(t, "5", k.GetBudgets()[0].GetUsd())
	require.Equal(t, "2030-01-02T03:04:05", forms.TimeField(k.GetExpiresAt()))
	require.Equal(t, map[string]string{"team": "a=b"}, k.GetMetadata())
	require.False(t, k.GetDisabled())
	require.Equal(t, "stays", k.GetProject())

	err := forms.Read(url.Values{"limit_amount": {"many"}, "metadata": {"no pair"}, "models": {"d"}}, k, names...)
	require.ErrorContains(t, err, "many", "the first error")
	require.Equal(t, []string{"d"}, k.GetModels(), "what is right is read all the same")
	require.Nil(t, k.GetExpiresAt())
	require.Empty(t, k.GetMetadata())
	require.Panics(t, func() { _ = forms.Read(f, k, "nonsense") })
	require.Panics(t, func() { _ = forms.Read(f, &configv1.Model{}, "retry") })
}

func TestTimesOfFieldsLoseNothing(t *testing.T) {
	minute := time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)
	for _, at := range []time.Time{minute, minute.Add(59 * time.Second), minute.Add(250 * time.Millisecond)} {
		again, err := forms.Time(forms.TimeField(timestamppb.New(at)))
		require.NoError(t, err)
		require.Equal(t, at, again.AsTime())
	}
	require.Empty(t, forms.TimeField(nil))
}
