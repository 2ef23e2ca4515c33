package configv1_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	var none *configv1.Retention
	require.Equal(t, []time.Duration{30 * day, 7 * day, 400 * day, 400 * day},
		[]time.Duration{none.KeepRequests(), none.KeepRefused(), none.KeepUsage(), none.KeepAudit()})
	short := &configv1.Retention{Name: "default", Requests: durationpb.New(3 * day)}
	require.Equal(t, 3*day, short.KeepRefused(), "no longer than other requests")
	require.NoError(t, configv1.Validate(short, nil).Err())
	for says, r := range map[string]*configv1.Retention{
		"name: must be default":                          {Name: "other"},
		"requests: must be between 259200s":              {Name: "default", Requests: durationpb.New(day)},
		"refused_requests: must be between 3600s":        {Name: "default", RefusedRequests: durationpb.New(time.Second)},
		"usage: must be between 5356800s":                {Name: "default", Usage: durationpb.New(30 * day)},
		"audit: must be between 2592000s":                {Name: "default", Audit: durationpb.New(-day)},
		"audit: must be between 2592000s and 315360000s": {Name: "default", Audit: durationpb.New(3651 * day)},
	} {
		require.ErrorContains(t, configv1.Validate(r, nil).Err(), says)
	}
}
