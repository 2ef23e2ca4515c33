package kubernetes_test

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serial is that of the certificate that somebody shows. Whether it would talk to us does not matter.
func serial(address string) (string, error) {
	var shown string
	c, err := tls.Dial("tcp", address, &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // it is looked at and not believed
		NextProtos:         []string{"h2", "http/1.1"},
		VerifyConnection: func(s tls.ConnectionState) error {
			shown = s.PeerCertificates[0].SerialNumber.String()
			return nil
		},
	})
	if err == nil {
		c.Close()
	}
	if shown == "" {
		return "", fmt.Errorf("%s shows no certificate: %w", address, err)
	}
	return shown, nil
}

// renews puts other certificates of the same authorities into all Secrets, as cert-manager does when they are due.
func renews(t *testing.T, r *release) {
	l := r.underLoad(t, "")
	l.flowing(t, r)
	shown := map[string]string{} // address -> serial
	for component, ports := range map[string][]int{"dataplane": {8443, 8444}, "controlplane": {18000, 8081},
		"jobsvc": {9090}, "etcd": {2379}} {
		for _, p := range pods(t, component) {
			for _, port := range ports {
				address := fmt.Sprintf("%s:%d", p.Status.PodIP, port)
				s, err := serial(address)
				require.NoError(t, err, component)
				shown[address] = s
			}
		}
	}
	processes := func() string {
		return kubectl(t, "-n", space, "get", "pods", "-l", "app.kubernetes.io/instance=gw", "--sort-by=.metadata.name",
			"-o",
			`jsonpath={range .items[*]}{.metadata.name} {.status.initContainerStatuses[*].containerID} {.status.containerStatuses[*].containerID}{"\n"}{end}`)
	}
	before := processes()
	out, err := r.upgrade("--timeout", "60s", "--set", "pki.selfSigned.rotation=2")
	require.NoError(t, err, out)
	for address, old := range shown {
		eventually(t, 90*time.Second, address+" shows its new certificate", func() error {
			now, err := serial(address)
			if err == nil && now == old {
				err = fmt.Errorf("still %s", old)
			}
			return err
		})
	}
	r.newKey(t, "[]")
	require.NoError(t, r.serves(10))
	require.Equal(t, before, processes(), "nothing was started again")
	l.unharmed(t)
	// Who connects now presents the new certificates: a process that is started anew, and the job service, both ways.
	kill(t, pods(t, "jobsvc")[0], "jobsvc")
	r.finished(t, r.newBatch(t, "echo/echo", "hello", 5), 5)
}
