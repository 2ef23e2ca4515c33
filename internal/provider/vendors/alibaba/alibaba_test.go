package alibaba

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/providertest"
)

func TestCases(t *testing.T) { providertest.Run(t, Provider()) }

func TestRecordedTraffic(t *testing.T) {
	providertest.Replay(t, Provider(), "alibaba")
}

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, Provider()) }

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, Provider()) }

func TestKeysHoldForOneRegion(t *testing.T) {
	for region, want := range map[string]string{
		"":            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
		"cn-beijing":  "https://dashscope.aliyuncs.com/compatible-mode/v1",
		"cn-hongkong": "https://cn-hongkong.dashscope.aliyuncs.com/compatible-mode/v1",
		"us-east-1":   "https://dashscope-us.aliyuncs.com/compatible-mode/v1",
	} {
		got, err := baseURL(&configv1.Provider{Region: region})
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := baseURL(&configv1.Provider{Region: "eu"})
	require.EqualError(t, err,
		`is required for the region "eu": without one the region must be one of ap-southeast-1, cn-beijing, cn-hongkong, us-east-1`)
}
