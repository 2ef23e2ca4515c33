package jobsvc

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/modelgate/modelgate/jobsvc/config"
)

func TestARequestWaitsForTheFirstConfigurationButNotForEver(t *testing.T) {
	nowhere, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = nowhere.Close() })
	synctest.Test(t, func(t *testing.T) {
		c := config.New(config.Options{XDS: nowhere, NodeID: "n", Logger: zap.NewNop(),
			Registerer: prometheus.NewRegistry()})
		served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		w, began := httptest.NewRecorder(), time.Now()
		configured(c, served).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/files", nil))
		require.Equal(t, configWait, time.Since(began))
		require.Equal(t, http.StatusNoContent, w.Code)
	})
}
