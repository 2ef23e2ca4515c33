package kubernetes_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kill ends a container's process as a machine that runs out of memory would, and waits until the pod has it again.
func kill(t *testing.T, p pod, container string) {
	t.Helper()
	require.NoError(t, syscall.Kill(p.process(t, container), syscall.SIGKILL))
	again(t, p, container)
}

// again waits until a container has been started once more, and its pod is ready.
func again(t *testing.T, p pod, name string) {
	t.Helper()
	count := func(p pod) int {
		for _, c := range p.containers() {
			if c.Name == name {
				return c.RestartCount
			}
		}
		return 0
	}
	eventually(t, time.Minute, p.Metadata.Name+" is ready again", func() error {
		for _, now := range podsIn(t, space, "app.kubernetes.io/instance=gw") {
			if now.Metadata.UID == p.Metadata.UID && now.ready() && count(now) > count(p) {
				return nil
			}
		}
		return fmt.Errorf("container %s is not", name)
	})
}

// What is not on the way of a request may go at any time. The order is another one each time.
func survivesOthers(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	acts := []struct {
		what string
		do   func()
	}{
		{"delete a control plane", func() {
			kubectl(t, "-n", space, "delete", "pod", pods(t, "controlplane")[0].Metadata.Name)
			awaitPods(t, "controlplane", 2)
		}},
		{"kill a control plane", func() { kill(t, pods(t, "controlplane")[1], "controlplane") }},
		{"kill both control planes", func() {
			both := pods(t, "controlplane")
			for _, p := range both {
				require.NoError(t, syscall.Kill(p.process(t, "controlplane"), syscall.SIGKILL))
			}
			for _, p := range both {
				again(t, p, "controlplane")
			}
		}},
		{"kill a member of etcd", func() {
			kill(t, pods(t, "etcd")[rand.IntN(3)], "etcd")
			r.newKey(t, "[]")
		}},
		{"kill Redis", func() { kill(t, pods(t, "redis")[0], "redis") }},
		{"kill PostgreSQL", func() { kill(t, pods(t, "postgresql")[0], "postgresql") }},
		{"delete Redis", func() {
			kubectl(t, "-n", space, "delete", "pod", pods(t, "redis")[0].Metadata.Name)
			awaitPods(t, "redis", 1)
		}},
		{"delete the job service", func() {
			kubectl(t, "-n", space, "delete", "pod", pods(t, "jobsvc")[0].Metadata.Name)
			awaitPods(t, "jobsvc", 1)
		}},
	}
	rand.Shuffle(len(acts), func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
	for _, act := range acts {
		begun := time.Now()
		act.do()
		t.Logf("%s: %s to %s", act.what, begun.Format("05.000"), time.Now().Format("05.000"))
	}
	l.unharmed(t)
	r.newKey(t, "[]") // the control plane writes, and what it writes arrives
}

func survivesDeletion(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	gone := pods(t, "dataplane")[0]
	kubectl(t, "-n", space, "delete", "pod", gone.Metadata.Name, "--wait=false")
	awaitPods(t, "dataplane", 2)
	l.unharmed(t)
}

// noticed is how long a pod that is dead may still be offered connections: until the kubelet and the proxy have seen
// it. It takes them two seconds, and longer on a machine that is busy.
const noticed = 10 * time.Second

// survivesKills kills each process of a data plane, and the whole of it. What the other carries goes on; what this one
// carried may be cut and what is sent to it until the Service knows is refused, which clients see as a broken
// connection or as a 503 of OpenAI's form.
func survivesKills(t *testing.T, r *release) {
	for _, victim := range []string{"extproc", "envoy", "the Envoy of envoy", "all"} {
		t.Run(victim, func(t *testing.T) {
			both := awaitPods(t, "dataplane", 2)
			p, other := both[0], both[1]
			spared := r.underLoad(t, other.Status.PodIP+":8443")
			spared.flowing(t, r)
			l := r.underLoad(t, "")
			l.flowing(t, r)
			killed := time.Now()
			switch victim {
			case "all":
				for _, c := range []string{"envoy", "extproc"} {
					require.NoError(t, syscall.Kill(p.process(t, c), syscall.SIGKILL))
				}
				again(t, p, "envoy")
			case "the Envoy of envoy": // its supervisor starts another
				envoy := child(t, p.process(t, "envoy"))
				require.NoError(t, syscall.Kill(envoy, syscall.SIGKILL))
				eventually(t, 30*time.Second, "Envoy is there again", func() error {
					one := newClient(t, r.gateway.base, secret(t, name+"-gateway-tls", "ca.crt"), r.key)
					one.http.Transport = r.gateway.transport(p.Status.PodIP + ":8443")
					_, _, err := one.ask(http.MethodGet, "/v1/models", nil, "")
					return err
				})
			default:
				kill(t, p, victim)
			}
			awaitPods(t, "dataplane", 2)
			recovered := time.Now()
			require.NoError(t, r.serves(50), "after it came back, nothing fails")
			spared.unharmed(t)
			cut := l.stop(t)
			for _, f := range cut {
				require.True(t, f.ended.After(killed) && f.begun.Before(killed.Add(noticed)),
					"%v: neither carried when it was killed (%s) nor sent to it before that was known", f, killed.Format("05.000"))
				require.True(t, f.begun.Before(recovered))
				require.NotContains(t, f.err.Error(), "another answer")
				if strings.Contains(f.err.Error(), "503") {
					require.Contains(t, f.err.Error(), `{"error":`, "errors are OpenAI's")
				}
			}
			if len(cut) > 0 {
				last := slices.MaxFunc(cut, func(a, b failure) int { return a.begun.Compare(b.begun) })
				t.Logf("the last that failed was begun %s after the kill: %v", last.begun.Sub(killed), last)
			}
		})
	}
}

// serves asks so many times on new connections.
func (r *release) serves(times int) error {
	transport := r.gateway.transport("")
	oneShot(transport)
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	l := &load{c: r.gateway, key: r.key}
	for i := range times {
		if err := l.chat(c, i); err != nil {
			return err
		}
	}
	return nil
}

// What a killed worker had not committed is done again, and every line is there once.
func survivesKilledJobs(t *testing.T, r *release) {
	b := r.newBatch(t, "slow/slow", "10", 24)
	eventually(t, 30*time.Second, "lines are under way", func() error {
		if r.provider.open.Load() == 0 {
			return fmt.Errorf("nothing is asked")
		}
		return nil
	})
	kill(t, pods(t, "jobsvc")[0], "jobsvc")
	r.finished(t, b, 24)
}
