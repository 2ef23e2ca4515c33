package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// One pod of each kind that a policy tells apart: of the same namespace, of another that a label selects, and neither.
const pods = `{"items":[
	{"metadata":{"namespace":"a","name":"server","labels":{"app":"server"}},"spec":{"containers":[{"ports":[{"name":"web","protocol":"TCP","containerPort":8080}]}]},"status":{"podIP":"10.0.0.1"}},
	{"metadata":{"namespace":"a","name":"client","labels":{"app":"client"}},"status":{"podIP":"10.0.0.2"}},
	{"metadata":{"namespace":"b","name":"client","labels":{"app":"client"}},"status":{"podIP":"10.0.0.3"}},
	{"metadata":{"namespace":"a","name":"ended","labels":{"app":"client"}},"status":{"podIP":"10.0.0.4","phase":"Succeeded"}}]}`

func TestPoliciesAsRules(t *testing.T) {
	cases := map[string]struct {
		spec      string
		direction string
		rules     []string
	}{
		"nothing is let in": {`{"policyTypes":["Ingress"]}`, "ingress", nil},
		"pods of the namespace on a named port": {
			`{"policyTypes":["Ingress"],"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":"client"}}}],"ports":[{"port":"web"}]}]}`,
			"ingress", []string{" ip saddr 10.0.0.2 tcp dport 8080 return\n"},
		},
		"pods of a namespace with a label": {
			`{"policyTypes":["Ingress"],"ingress":[{"from":[{"namespaceSelector":{"matchExpressions":[{"key":"team","operator":"In","values":["b"]}]}}]}]}`,
			"ingress", []string{" ip saddr 10.0.0.3 return\n"},
		},
		"both selectors in one peer are both asked for": {
			`{"policyTypes":["Ingress"],"ingress":[{"from":[{"namespaceSelector":{},"podSelector":{"matchLabels":{"app":"server"}}}]}]}`,
			"ingress", []string{" ip saddr 10.0.0.1 return\n"},
		},
		"everybody on a range of ports": {
			`{"policyTypes":["Ingress"],"ingress":[{"ports":[{"protocol":"UDP","port":10,"endPort":20}]}]}`,
			"ingress", []string{" udp dport 10-20 return\n"},
		},
		"the world but for some of it": {
			`{"policyTypes":["Egress"],"egress":[{"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["10.0.0.0/8"]}},{"ipBlock":{"cidr":"::/0"}}],"ports":[{"port":443}]}]}`,
			"egress", []string{" ip daddr 0.0.0.0/0 ip daddr != 10.0.0.0/8 tcp dport 443 return\n"},
		},
		"a named port is that of the pod that is reached": {
			`{"policyTypes":["Egress"],"egress":[{"to":[{"podSelector":{}}],"ports":[{"port":"web"}]}]}`,
			"egress", []string{" ip daddr 10.0.0.1 tcp dport 8080 return\n"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var w world
			require.NoError(t, json.Unmarshal([]byte(pods), &w.Pods))
			require.NoError(t,
				json.Unmarshal([]byte(`{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","labels":{"team":"b"}}}]}`),
					&w.Namespaces))
			require.NoError(t, json.Unmarshal([]byte(`{"items":[{"metadata":{"namespace":"a","name":"p"},"spec":`+tc.spec+
				`}]}`), &w.Policies))
			rules, isolated, err := w.rulesOf(w.Pods.Items[0], tc.direction)
			require.NoError(t, err)
			require.True(t, isolated)
			require.Equal(t, tc.rules, rules)
			_, isolated, err = w.rulesOf(w.Pods.Items[2], tc.direction)
			require.NoError(t, err)
			require.False(t, isolated, "a policy is about pods of its namespace")
		})
	}
}
