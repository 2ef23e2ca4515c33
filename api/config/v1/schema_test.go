package configv1_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// compiled returns the schema of kinds, which must itself be valid.
func compiled(t *testing.T, kinds ...configv1.Kind) *jsonschema.Schema {
	t.Helper()
	text, err := configv1.Schema(kinds...)
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("modelgate.schema.json", document))
	s, err := c.Compile("modelgate.schema.json")
	require.NoError(t, err)
	return s
}

func judge(t *testing.T, s *jsonschema.Schema, document string) error {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(document))
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return s.Validate(value)
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestSchemaAcceptsWhatTheDocumentsShow reads every example of the documents that a command would take.
func TestSchemaAcceptsWhatTheDocumentsShow(t *testing.T) {
	s := compiled(t, configv1.Kinds()...)
	pages, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	read := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			docs, err := configv1.ParseYAML(page, []byte(block[1]))
			if err != nil {
				continue // of another program
			}
			for _, part := range strings.Split(block[1], "\n---\n") {
				require.NoError(t, judge(t, s, part), "%s:\n%s", page, part)
			}
			read += len(docs)
		}
	}
	require.Greater(t, read, 10)
}

func TestSchemaRefusesWhatIsNoObject(t *testing.T) {
	s := compiled(t, configv1.Kinds()...)
	const good = "kind: Provider\nname: a\nvendor: openai\n"
	require.NoError(t, judge(t, s, good))
	require.NoError(t, judge(t, s, "- "+strings.ReplaceAll(strings.TrimSpace(good), "\n", "\n  ")), "a list of documents")
	for name, more := range map[string]string{
		"camel case": "untouchedAnswers: true", "null": "headers: null", "status": "status: {ready: true}",
		"duration": "timeouts: {connect: 0.5s}", "a number as text": "concurrency: {max_requests: '3'}",
		"an enumeration": "unsupported_parameters: DROP", "a credential": "credential: {env: KEY}",
		"a secret in Vault": "credential: {vault: {path: secret/data/a, field: key}}",
		"a managed secret":  "credential: {secret_manager: {name: aws/eu-west-1/a}}",
		"an identity":       "credential: {workload_identity: {}}",
	} {
		require.NoError(t, judge(t, s, good+more), name)
		_, err := configv1.ParseYAML("f", []byte(good+more))
		require.NoError(t, err, name)
	}
	for name, more := range map[string]string{
		"unknown field": "endpoints: x", "wrong type": "disabled: 'yes'", "no duration": "timeouts: {connect: 5}",
		"too large": "concurrency: {max_requests: 4294967296}", "unknown value": "unsupported_parameters: DROPP",
		"two sources":            "credential: {env: A, file: b}",
		"unknown field of Vault": "credential: {vault: {key: a}}",
		"unknown field within":   "tls: {cert: x}", "not a list": "models: a",
		"not a mapping": "timeouts: 5s", "an item of a list": "models: [1]",
	} {
		require.Error(t, judge(t, s, good+more), name)
		_, err := configv1.ParseYAML("f", []byte(good+more))
		require.Error(t, err, name)
	}
	for name, more := range map[string]string{ // the options of the fields bound these
		"too many": "concurrency: {max_requests: 1000001}", "twice the same": "models: [a, a]",
	} {
		require.Error(t, judge(t, s, good+more), name)
		docs, err := configv1.ParseYAML("f", []byte(good+more))
		require.NoError(t, err, name)
		require.NotEmpty(t, docs[0].Validate(func(string) (configv1.Vendor, bool) { return configv1.Vendor{}, true }), name)
	}
	require.Error(t, judge(t, s, "kind: Providers\nname: a"))
	require.Error(t, judge(t, s, "name: a"))
	require.NoError(t, judge(t, compiled(t, configv1.KindOf((*configv1.Provider)(nil))), good))
}

// TestSchemaRequiresWhatValidationDoes takes a smallest valid object of each kind: without any of its fields it is not
// valid, and each of them is required, so that no other field is.
func TestSchemaRequiresWhatValidationDoes(t *testing.T) {
	s := compiled(t, configv1.Kinds()...)
	vendor := func(string) (configv1.Vendor, bool) {
		return configv1.Vendor{Endpoint: func(*configv1.Provider) error { return nil }}, true
	}
	valid := func(document string) bool {
		docs, err := configv1.ParseYAML("f", []byte(document))
		require.NoError(t, err)
		return len(docs[0].Validate(vendor)) == 0
	}
	for _, smallest := range []string{
		"kind: Provider\nname: a\nvendor: openai",
		"kind: Model\nname: a\ntargets: [{provider: p, model: m}]",
		"kind: Organization\nname: a", "kind: Project\nname: a/b", "kind: Gateway\nname: a", "kind: Catalog\nname: default",
		"kind: Route\nname: a\nprovider: p\npathPrefix: /v1/x",
		"kind: JobService\nname: default\naddress: unix:///a\nlisten: unix:///b",
		"kind: Webhook\nname: a\nurl: https://a.example/\nsecret: {env: A}",
		"kind: RateLimit\nname: a\ndomain: requests\ndescriptors: [{key: user, rate_limit: {unit: MINUTE, requests_per_unit: 1}}]",
		"kind: AlertRule\nname: a\ncondition: ERROR_RATE",
	} {
		require.True(t, valid(smallest), smallest)
		require.NoError(t, judge(t, s, smallest), smallest)
		lines := strings.Split(smallest, "\n")
		for i := 1; i < len(lines); i++ {
			without := strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")
			require.False(t, valid(without), without)
			require.Error(t, judge(t, s, without), without)
		}
	}
}

func TestSchemaExplainsEveryField(t *testing.T) {
	text, err := configv1.Schema(configv1.Kinds()...)
	require.NoError(t, err)
	require.Contains(t, string(text), `"description": "Vendor whose dialect the endpoint uses, such as openai, anthropic or gemini. docs/providers.md lists them."`)
	require.Contains(t, string(text), `"description": "A Credential is a secret, or the place where the control plane finds it. Exactly one source is set."`)
	require.Contains(t, string(text), `"description": "File of the control plane. It is read again when it changes."`)
}
