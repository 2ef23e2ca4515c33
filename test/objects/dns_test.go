package objects_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// nameServer starts CoreDNS with the block of docs/egress.md, before one that knows the vendor's own address.
func (c *cluster) nameServer(t *testing.T) (port int) {
	t.Helper()
	text, err := os.ReadFile("../../docs/egress.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```\n(api\\.openai\\.com:53.*?)```").FindSubmatch(text)
	require.NotNil(t, block, "docs/egress.md has no block for CoreDNS")
	port = harness.FreePort(t)
	config := strings.ReplaceAll(string(block[1]), ":53", fmt.Sprint(":", port))
	config = strings.ReplaceAll(config, "pods verified", "pods verified\n kubeconfig "+c.kubeconfig(t, "admin"))
	config += fmt.Sprintf(".:%d {\n hosts {\n  203.0.113.9 api.openai.com\n }\n}\n", port)
	harness.Start(t, c.coredns("-conf", c.write(t, "Corefile", config)))
	return port
}

func (c *cluster) coredns(args ...string) *exec.Cmd {
	server := exec.Command(c.binary, args...)
	server.Args[0] = "coredns"
	return server
}

// TestOnlyApplicationsSeeTheGatewayAtNamesOfVendors: the gateway itself still finds the vendor.
func TestOnlyApplicationsSeeTheGatewayAtNamesOfVendors(t *testing.T) {
	c := newCluster(t)
	if plugins, _ := c.coredns("-plugins").CombinedOutput(); !strings.Contains(string(plugins), "view") {
		testenv.Missing(t, "CoreDNS with the plugin view", "test/kubernetes/run.sh --prepare")
	}
	addresses := map[string]string{"team-b": "127.0.0.2", "modelgate": "127.0.0.3"}
	for namespace, address := range addresses {
		c.namespace(t, namespace, "")
		c.apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: "+namespace+", name: default}\n",
			"apiVersion: v1\nkind: Pod\nmetadata: {namespace: "+namespace+", name: pod}\n"+
				"spec: {containers: [{name: a, image: b}]}\n")
		_, err := c.on("Pod", namespace).Patch(t.Context(), "pod", types.MergePatchType,
			[]byte(`{"status":{"phase":"Running","podIP":"`+address+`","podIPs":[{"ip":"`+address+`"}]}}`),
			metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	c.apply(t, "apiVersion: v1\nkind: Service\nmetadata: {namespace: modelgate, name: modelgate-gateway}\n"+
		"spec: {clusterIP: 10.96.7.7, ports: [{name: https, port: 443}]}\n")
	port := c.nameServer(t)
	found := func(from string) string {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
			return d.DialContext(ctx, "udp", fmt.Sprint("127.0.0.1:", port))
		}}
		all, err := resolver.LookupNetIP(t.Context(), "ip4", "api.openai.com.")
		return fmt.Sprint(all, err)
	}
	harness.Eventually(t, "the name leads to the gateway", func() error {
		if got := found(addresses["team-b"]); got != "[10.96.7.7] <nil>" {
			return fmt.Errorf("it leads to %s", got)
		}
		return nil
	})
	for whose, address := range map[string]string{"the gateway": addresses["modelgate"], "nobody's": "127.0.0.4"} {
		require.Equal(t, "[203.0.113.9] <nil>", found(address), whose)
	}
}
