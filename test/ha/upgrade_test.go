package ha

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// TestNothingIsLost replaces every part, one after the other, under one load.
func TestNothingIsLost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	c := newCluster(t)
	l := startLoad(c)
	l.pass(t)
	binary := harness.Binary(t)
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"etcd is upgraded member by member", func(t *testing.T) {
			for _, e := range c.etcd {
				e.Stop(t)
				e.Restart(c.t)
				c.awaitEtcd(t)
			}
		}},
		{"control planes are upgraded one after the other", func(*testing.T) {
			for _, p := range c.planes {
				p.replace(binary)
			}
		}},
		{"job services are upgraded one after the other", func(*testing.T) {
			for _, p := range c.jobs {
				p.replace(binary)
			}
		}},
		{"an ext_proc service is replaced beside a living Envoy", func(*testing.T) { c.data[0].takeOver(binary) }},
		{"an Envoy is drained and replaced beside a living ext_proc service",
			func(*testing.T) { c.data[0].replaceEnvoy(binary) }},
		{"a data plane is replaced whole", func(*testing.T) { c.data[1].replace(binary) }},
		{"Redis is killed and restarted", func(t *testing.T) { c.redis.Restart(t) }},
	} {
		l.during(t, step.name, step.do)
	}
	t.Run("the ledger is exact", func(t *testing.T) {
		l.halt()
		l.requireExact(t, 0)
	})
}

// awaitEtcd waits until every member answers.
func (c *cluster) awaitEtcd(t testing.TB) {
	t.Helper()
	client := c.etcd[0].Client(t)
	for _, e := range c.etcd {
		harness.Eventually(t, "a member of etcd is back", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			s, err := client.Status(ctx, e.Endpoint())
			if err == nil && (s.Leader == 0 || len(s.Errors) > 0) {
				err = fmt.Errorf("leader %d, %w", s.Leader, errors.New("it has not caught up"))
			}
			return err
		})
	}
}
