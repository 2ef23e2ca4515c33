package models_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestAFineTunedModelIsDeletedAtItsProviderToo(t *testing.T) {
	for name, path := range map[string]string{"plain": "ft:a/m:acme::1", "escaped": "ft%3Aa%2Fm%3Aacme%3A%3A1"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("ft:a/m:acme::1", "a", "tuned-1", acme)
			status, body := w.delete(acme, path)
			require.Equal(t, 200, status, body)
			require.Equal(t, `{"id":"ft:a/m:acme::1","object":"model","deleted":true}`, body)
			require.False(t, w.there("ft:a/m:acme::1"))
			require.Equal(t, []string{"tuned-1"}, w.gone)
		})
	}
}

func TestADeletionWaitsForTheGatewayToHearOfIt(t *testing.T) {
	w := newWorld(t)
	w.vanish = time.Minute
	mux := http.NewServeMux()
	w.service(zap.NewNop()).Register(mux)
	w.api = httpapi.Mux(mux)
	w.put("ft:m", "a", "tuned", acme)
	w.lags["ft:m"] = 3
	require.Equal(t, 200, first(w.delete(acme, "ft:m")))
	require.Negative(t, w.lags["ft:m"], "it was seen three times more, and then not")
}

func TestAModelIsDeletedHereWhereTheProviderHasNothingToDelete(t *testing.T) {
	for name, tc := range map[string]struct{ provider, upstream string }{
		"a provider that cannot":            {"b", "tuned"},
		"a provider that is gone":           {"z", "tuned"},
		"another model is served by it too": {"a", "shared"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.config.Models["alias"] = &configv1.Model{Name: "alias",
				Targets: []*configv1.Target{{Provider: "a", Model: "shared"}}}
			w.put("ft:m", tc.provider, tc.upstream, acme)
			require.Equal(t, 200, first(w.delete(acme, "ft:m")))
			require.False(t, w.there("ft:m"))
			require.Empty(t, w.gone)
		})
	}
}

func TestWhatIsNotTheCallersIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	w.put("ft:theirs", "a", "t", store.Tenant{Organization: "other"})
	w.put("ft:wide", "a", "t2", store.Tenant{Organization: "acme"})
	w.put("ft:ours", "a", "t3", acme)
	w.unseen["ft:theirs"], w.unseen["ft:missing"] = true, true
	for path, want := range map[string]int{"ft:theirs": 404, "ft:missing": 404, "ft:wide": 403, "a/m": 403, "m": 403} {
		status, body := w.delete(acme, path)
		require.Equal(t, want, status, path)
		if want == 404 {
			require.Equal(t, `{"error":{"message":"The model `+"`"+path+"`"+
				` does not exist or you do not have access to it.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, body)
		}
	}
	for _, as := range []store.Tenant{{}, {Organization: "acme"}, {Organization: "acme", Project: "else"}} {
		require.Equal(t, 403, first(w.delete(as, "ft:ours")), "%v", as)
	}
	require.True(t, w.there("ft:theirs") && w.there("ft:wide") && w.there("ft:ours"))
	require.Empty(t, w.gone)
	require.Equal(t, 200, first(w.delete(acme, "ft:ours")))
}

func TestAModelThatWasDeletedJustNowIsNotThere(t *testing.T) {
	w := newWorld(t)
	// The gateway has not heard of it yet.
	w.config.Models["ft:m"] = &configv1.Model{Name: "ft:m", Organization: acme.Organization, Project: acme.Project,
		FineTuned: &configv1.FineTuned{Job: "ftjob-1"}}
	status, body := w.delete(acme, "ft:m")
	require.Equal(t, 404, status, body)
	require.Contains(t, body, `"model_not_found"`)
}

func TestTwoDeletionsAtOnceAreOne(t *testing.T) {
	w := newWorld(t)
	w.put("ft:m", "a", "t", acme)
	statuses := make(chan int, 8)
	for range cap(statuses) {
		go func() { statuses <- first(w.delete(acme, "ft:m")) }()
	}
	deleted := 0
	for range cap(statuses) {
		switch status := <-statuses; status {
		case 200:
			deleted++
		case 403, 404, 409: // a conflict is no failure of the gateway's, which would be logged
		default:
			require.Fail(t, "unexpected", "%d", status)
		}
	}
	require.Equal(t, 1, deleted)
}

func TestNothingIsDeletedWhileTheProviderDoesNotSaySo(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"no connection": {io.ErrUnexpectedEOF, 503},
		"its failure":   {&openai.Error{Status: 500, Message: "x"}, 503},
		"its refusal":   {&openai.Error{Status: 403, Type: openai.TypeInvalidRequest, Message: "Only owners."}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put("ft:m", "a", "tuned", acme)
			w.refuses = tc.err
			status, body := w.delete(acme, "ft:m")
			require.Equal(t, tc.want, status, body)
			require.True(t, w.there("ft:m"))
			w.refuses = nil
			require.Equal(t, 200, first(w.delete(acme, "ft:m")))
		})
	}
}

func TestAModelIsNotDeletedWhileItsJobIsBeingFinished(t *testing.T) {
	w := newWorld(t)
	st := store.New(w.etcd)
	r := &store.Record[finetuning.Job]{Tenant: acme, ID: finetuning.Kind.NewID(),
		Value: finetuning.Job{Status: job.TuningRunning}}
	txn := st.Begin()
	finetuning.Kind.Create(txn, r)
	require.NoError(t, txn.Commit(t.Context()))
	_, err := w.objects.Put(t.Context(), &configv1.Model{Name: "ft:m",
		Targets:      []*configv1.Target{{Provider: "a", Model: "tuned"}},
		Organization: acme.Organization, Project: acme.Project, FineTuned: &configv1.FineTuned{Job: r.ID, BaseModel: "m"}},
		0)
	require.NoError(t, err)
	require.Equal(t, 503, first(w.delete(acme, "ft:m")))
	require.Empty(t, w.gone)
	r.Value.Status = job.TuningSucceeded
	txn = st.Begin()
	finetuning.Kind.Update(txn, r)
	require.NoError(t, txn.Commit(t.Context()))
	require.Equal(t, 200, first(w.delete(acme, "ft:m")))
}

func TestDeletionCanBeTriedAgainWhereTheGatewayIsAway(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, 503, first(w.delete(acme, "ft:m", envoy.HeaderKey, "unlucky")))
	w.config = nil
	w.put("ft:m", "a", "tuned", acme)
	require.Equal(t, 503, first(w.delete(acme, "ft:m")))
	require.True(t, w.there("ft:m"))
}

func first(status int, _ string) int { return status }
