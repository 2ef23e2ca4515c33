package webhooks

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/webhook"
	"github.com/modelgate/modelgate/jobsvc/store"
)

func TestAWebhookThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	silent := newReceiver(t)
	silent.arrived = make(chan struct{}, 10_000)
	release := make(chan struct{})
	silent.answer = func(int, http.ResponseWriter) { <-release }
	t.Cleanup(func() { close(release) })
	dead := hookAt(silent.URL)
	dead.Name = "dead"
	sys := newSystem(t, dead)
	service := sys.service("one", zap.NewNop())
	service.client.Patience(time.Second)
	for i := range 1000 {
		txn := service.Store.Begin()
		service.Announce(txn, acme, "batch.completed", fmt.Sprintf("batch_%026d", i), time.Now())
		require.NoError(t, txn.Commit(t.Context()))
	}
	good := hookAt("")
	good.Organization, good.Project = "other", ""
	sys.configure(dead, good)
	sys.run(service)
	silent.await(t)
	txn := service.Store.Begin()
	service.Announce(txn, store.Tenant{Organization: "other"}, "batch.completed", batchID, time.Now())
	require.NoError(t, txn.Commit(t.Context()))
	sys.target.await(t)
}

func TestAWebhookIsTriedLessWhileItDoesNotAnswer(t *testing.T) {
	a := unresponsive{silent: map[string]bool{}, running: map[string]int{}}
	for range 8 {
		require.True(t, a.enter("hook"), "nothing is known against it")
	}
	a.leave("hook", webhook.TimedOut)
	require.False(t, a.enter("hook"))
	require.True(t, a.enter("other"))
	for range 6 {
		a.leave("hook", webhook.Unreachable)
	}
	require.True(t, a.enter("hook"), "whether it answers again is found out")
	require.False(t, a.enter("hook"))
	a.leave("hook", webhook.Refused)
	require.True(t, a.enter("hook"))
	require.True(t, a.enter("hook"), "a refusal is an answer")
}

func TestAnEventIsNotPutOffForEver(t *testing.T) {
	sys := newSystem(t, hookAt(""))
	service := sys.service("one", zap.NewNop())
	service.unresponsive.silent["hook"], service.unresponsive.running["hook"] = true, maxUnresponsive
	sys.announce(service, "batch.failed")
	service.Now = func() time.Time { return time.Unix(1_800_000_000, 0).Add(maxAge + time.Second) }
	sys.run(service)
	sys.drained()
	require.Empty(t, sys.target.got)
}
