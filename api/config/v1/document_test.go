package configv1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const example = `# An account with a vendor.
kind: Provider
name: openai
vendor: openai
credential:
  env: OPENAI_API_KEY
headers:
  X-Team: search
timeouts:
  first_byte: 90s
allow_unlisted_models: false
unsupported_parameters: DROP
---
kind: Model
name: team/gpt
targets:
- provider: openai
  model: gpt-4o
  weight: 3
- {provider: openai, model: gpt-4o-mini, priority: 1}
retry: {maxAttempts: 2, status_codes: [429, 503]}
---
# nothing but a comment
---
{"kind": "Gateway", "name": "default", "max_request_bytes": 1048576}
--- # the last one
kind: Key
name: key_1
expires_at: 2030-01-02T03:04:05Z
status: {revision: 7, error: what the admin API said}
`

func TestParseYAMLReadsEveryDocument(t *testing.T) {
	docs, err := configv1.ParseYAML("a.yaml", []byte(example))
	require.NoError(t, err)
	unlisted := false
	want := []configv1.Object{
		&configv1.Provider{
			Name: "openai", Vendor: "openai",
			Credential:            &configv1.Credential{Source: &configv1.Credential_Env{Env: "OPENAI_API_KEY"}},
			Headers:               map[string]string{"X-Team": "search"},
			Timeouts:              &configv1.Timeouts{FirstByte: durationpb.New(90e9)},
			AllowUnlistedModels:   &unlisted,
			UnsupportedParameters: configv1.UnsupportedParameters_DROP,
		},
		&configv1.Model{
			Name: "team/gpt",
			Targets: []*configv1.Target{
				{Provider: "openai", Model: "gpt-4o", Weight: 3},
				{Provider: "openai", Model: "gpt-4o-mini", Priority: 1},
			},
			Retry: &configv1.Retry{MaxAttempts: 2, StatusCodes: []uint32{429, 503}},
		},
		&configv1.Gateway{Name: "default", MaxRequestBytes: 1 << 20},
		&configv1.Key{Name: "key_1", ExpiresAt: &timestamppb.Timestamp{Seconds: 1893553445}},
	}
	var got []configv1.Object
	var sources []string
	for _, d := range docs {
		require.Equal(t, configv1.KindOf(d.Object).Name, d.Kind.Name)
		got, sources = append(got, d.Object), append(sources, d.Place(""))
	}
	require.Empty(t, cmp.Diff(want, got, protocmp.Transform()))
	require.Equal(t, []string{"a.yaml:2:1", "a.yaml:14:1", "a.yaml:25:1", "a.yaml:27:1"}, sources)
}

// Report 15: file, line and column.
func TestParseYAMLNamesFileObjectAndField(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no kind": {"name: a",
			"f:1:1: kind: must be one of " + configv1.KindNames()},
		"unknown kind": {"kind: provider\nname: a",
			"f:1:1: kind: must be one of " + configv1.KindNames() + "; did you mean Provider?"},
		"never stored kind": {"kind: Settings\nname: a",
			"f:1:1: kind: must be one of " + configv1.KindNames()},
		"unknown field": {"\n\nkind: Retry\n---\nkind: Provider\nname: a\nurl: x",
			"f:3:1: kind: must be one of " + configv1.KindNames() + "\nf:7:1: Provider a: url: unknown field; the fields here are name, vendor, endpoint, credential, headers, timeouts, tls, models, allow_unlisted_models, unsupported_parameters, disabled, region, project, api_version, untouched_answers, native_batches, concurrency, trace_context, full_names_only, operations and shared_objects"},
		"case matters": {"kind: Provider\nname: a\nVendor: x",
			"f:3:1: Provider a: Vendor: unknown field; the fields here are name, vendor, endpoint, credential, headers, timeouts, tls, models, allow_unlisted_models, unsupported_parameters, disabled, region, project, api_version, untouched_answers, native_batches, concurrency, trace_context, full_names_only, operations and shared_objects; did you mean vendor?"},
		"in a list": {"kind: Model\nname: a/b\ntargets:\n- provider: a\n- models: b",
			"f:5:3: Model a/b: targets[1].models: unknown field; the fields here are provider, model, weight and priority; did you mean model?"},
		"several at once": {"kind: Gateway\nname: g\nport: -1\naddress: 5\ntrusted_hops: [1]",
			"f:4:1: Gateway g: address: must be a string (put it in quotes)\nf:3:1: Gateway g: port: must be a whole number from 0 to 4294967295\nf:5:1: Gateway g: trusted_hops: must be a whole number from 0 to 4294967295"},
		"behind a marker": {"--- {kind: Key, name: a, models: 1}",
			"f:1:26: Key a: models: must be a list, each item a string (put it in quotes)"},
		"in an array": {"- kind: Key\n  name: a\n- kind: Key\n  name: b\n  models: 1",
			"f:5:3: Key b: models: must be a list, each item a string (put it in quotes)"},
		"tabs": {"kind: Key\n\tname: a",
			"f:2:1: yaml: line 2: found a tab character that violates indentation"},
		"duplicate key": {"# c\n---\nkind: Provider\nname: a\nname: b", `f:5:1: yaml: unmarshal errors:` + "\n" +
			`  line 5: key "name" already set in map`},
		"two spellings": {"kind: Provider\nname: a\nallow_unlisted_models: true\nallowUnlistedModels: false",
			"f:4:1: Provider a: allow_unlisted_models: given twice, in two spellings"},
		"two sources": {"kind: Provider\nname: a\ncredential: {env: A, file: /b}",
			"f:3:22: Provider a: credential.file: only one of env, file, value, sealed, vault, secret_manager and workload_identity may be given"},
		"secret not shown": {"kind: Provider\nname: a\ncredential: {value: 12345}",
			"f:3:14: Provider a: credential.value: must be a string (put it in quotes)"},
		"duration": {"kind: Provider\nname: a\ntimeouts: {idle: 5}",
			`f:3:12: Provider a: timeouts.idle: must be seconds with an "s", such as 30s or 0.5s`},
		"time": {"kind: Key\nname: a\nexpires_at: tomorrow",
			"f:3:1: Key a: expires_at: must be a time such as 2030-01-31T23:59:59Z"},
		"enumeration": {"kind: Provider\nname: a\nunsupported_parameters: IGNORE",
			"f:3:1: Provider a: unsupported_parameters: must be one of REJECT and DROP"},
		"enumeration, misspelled": {"kind: Provider\nname: a\nunsupported_parameters: rejekt",
			"f:3:1: Provider a: unsupported_parameters: must be one of REJECT and DROP; did you mean REJECT?"},
		"list": {"kind: Model\nname: a\ntargets: {provider: a}", "f:3:1: Model a: targets: must be a list"},
		"list of strings": {"kind: Key\nname: a\nmodels: [1]",
			"f:3:1: Key a: models: must be a list, each item a string (put it in quotes)"},
		"list of nothing": {"kind: Model\nname: a\ntargets: [null]",
			"f:3:11: Model a: targets[0]: must be a mapping of fields"},
		"message": {"kind: Provider\nname: a\ntls: yes", "f:3:1: Provider a: tls: must be a mapping of fields"},
		"map": {"kind: Provider\nname: a\nheaders: [a]",
			"f:3:1: Provider a: headers: must be a mapping from names to strings"},
		"a scalar": {"just text", "f:1:1: must be a mapping of fields"},
		"not YAML": {"kind: Provider\n---\nkind: [", "f:3:1: yaml: line 3: did not find expected node content"},
		"odd name": {"kind: Provider\nname: \"a\\nb\"\nx: 1",
			"f:3:1: Provider \"a\\nb\": x: unknown field; the fields here are name, vendor, endpoint, credential, headers, timeouts, tls, models, allow_unlisted_models, unsupported_parameters, disabled, region, project, api_version, untouched_answers, native_batches, concurrency, trace_context, full_names_only, operations and shared_objects"},
		"after the end": {"kind: Key\nname: a\n...\nkind: Nothing",
			"f:4:1: kind: must be one of " + configv1.KindNames()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configv1.ParseYAML("f", []byte(tc.text))
			require.EqualError(t, err, tc.want)
			require.ErrorAs(t, err, new(configv1.Errors))
		})
	}
}

func TestParseYAMLReturnsTheGoodDocumentsToo(t *testing.T) {
	docs, err := configv1.ParseYAML("f", []byte("kind: X\n---\nkind: Key\nname: a\n"))
	require.Error(t, err)
	require.Len(t, docs, 1)
	require.Equal(t, "f:3:1", docs[0].Place(""))
}

func TestParseYAMLBoundsWhatAliasesGrowTo(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		p, c := string(rune('0'+i-1)), string(rune('0'+i))
		bomb.WriteString("a" + c + ": &a" + c + " [" + strings.Repeat("*a"+p+",", 9) + "*a" + p + "]\n")
	}
	_, err := configv1.ParseYAML("f", []byte(bomb.String()))
	require.ErrorContains(t, err, "excessive aliasing")
}

func TestParseJSON(t *testing.T) {
	docs, err := configv1.ParseJSON([]byte(`[{"kind":"Key","name":"a"},{"kind":"Key","name":"b"}]`))
	require.NoError(t, err)
	require.Len(t, docs, 2)
	docs, err = configv1.ParseJSON([]byte(`{"kind":"Key","name":"a"}`))
	require.NoError(t, err)
	require.Len(t, docs, 1)

	key := configv1.KindOf((*configv1.Key)(nil))
	object, err := key.ParseJSON([]byte(`{"name":"a"}`))
	require.NoError(t, err)
	require.Equal(t, "a", object.GetName())

	for name, tc := range map[string]struct{ text, want string }{
		"another kind":  {`{"kind":"Model","name":"a"}`, "kind: must be Key"},
		"duplicate":     {`{"name":"a","name":"b"}`, `member "name" is given twice`},
		"nested":        {`{"name":"a","models":[{"x":1,"x":2}]}`, `member "x" is given twice`},
		"more":          {`{"name":"a"} {}`, "there is more after the end of the JSON value"},
		"cut":           {`{"name":"a"`, "the JSON value is incomplete"},
		"empty":         {``, "the JSON value is incomplete"},
		"not an object": {`3`, "must be a mapping of fields"},
		"too deep":      {strings.Repeat("[", 1<<20), "nested more than 32 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := key.ParseJSON([]byte(tc.text))
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestEveryObjectSurvivesYAMLAndJSON(t *testing.T) {
	docs, err := configv1.ParseYAML("a", []byte(example))
	require.NoError(t, err)
	for _, d := range docs {
		text, err := configv1.MarshalYAML(d.Object)
		require.NoError(t, err)
		again, err := configv1.ParseYAML("b", text)
		require.NoError(t, err)
		require.Len(t, again, 1)
		require.Empty(t, cmp.Diff(d.Object, again[0].Object, protocmp.Transform()))

		data, err := configv1.MarshalJSON(d.Object)
		require.NoError(t, err)
		again, err = configv1.ParseJSON(data)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(d.Object, again[0].Object, protocmp.Transform()))

		data, err = configv1.Marshal(d.Object)
		require.NoError(t, err)
		stored, err := d.Kind.Unmarshal(data)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(d.Object, stored, protocmp.Transform()))
	}
}

func TestOutputIsCanonical(t *testing.T) {
	docs, err := configv1.ParseYAML("a", []byte(example))
	require.NoError(t, err)
	text, err := configv1.MarshalYAML(docs[1].Object)
	require.NoError(t, err)
	require.Equal(t, `kind: Model
name: team/gpt
targets:
- model: gpt-4o
  provider: openai
  weight: 3
- model: gpt-4o-mini
  priority: 1
  provider: openai
retry:
  max_attempts: 2
  status_codes:
  - 429
  - 503
`, string(text))
	data, err := configv1.MarshalJSON(docs[1].Object)
	require.NoError(t, err)
	require.Equal(t, `{"kind":"Model","name":"team/gpt","targets":[{"provider":"openai","model":"gpt-4o","weight":3},`+
		`{"provider":"openai","model":"gpt-4o-mini","priority":1}],"retry":{"max_attempts":2,"status_codes":[429,503]}}`,
		string(data))
	data, err = configv1.MarshalJSON(&configv1.Key{})
	require.NoError(t, err)
	require.Equal(t, `{"kind":"Key"}`, string(data))
}

func TestUnmarshalIsStrictAndHidesValues(t *testing.T) {
	provider, _ := configv1.FindKind("Provider")
	for name, tc := range map[string]struct{ text, want string }{
		"not JSON":      {"garbage", "not JSON: invalid character 'g' looking for beginning of value"},
		"unknown field": {`{"name":"a","x":1}`, "Provider a: x: unknown field"},
		"wrong type":    {`{"name":"a","credential":{"value":4711}}`, "Provider a: credential.value: must be a string"},
		"a document":    {`{"kind":"Provider","name":"a"}`, "Provider: has members that are not fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := provider.Unmarshal([]byte(tc.text))
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "4711")
		})
	}
}

func TestFindKind(t *testing.T) {
	for _, k := range configv1.Kinds() {
		for _, s := range []string{k.Name, k.Plural, strings.ToLower(k.Name)} {
			found, ok := configv1.FindKind(s)
			require.True(t, ok)
			require.Equal(t, k.Name, found.Name)
		}
		require.Equal(t, k.Name, configv1.KindOf(k.New()).Name)
	}
	_, ok := configv1.FindKind("settings")
	require.False(t, ok)
	require.Empty(t, configv1.KindOf(&configv1.Settings{}).Name)
}

func FuzzParseYAML(f *testing.F) {
	for _, s := range []string{example, "", "---\n...\n---", "kind: Provider\nname: [", "a: &a [*a]",
		"kind: Key\nmodels: !!binary x", "\ufeffkind: Key"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, err := configv1.ParseYAML("f", text)
		if err != nil {
			require.ErrorAs(t, err, new(configv1.Errors))
			require.NotEmpty(t, err.Error())
		}
		for _, d := range docs {
			d.Validate(func(string) (configv1.Vendor, bool) { return configv1.Vendor{}, true })
			// Text that is not UTF-8 cannot be written, and validation leaves it to the writer to say so.
			written, err := configv1.MarshalYAML(d.Object)
			if err != nil {
				continue
			}
			again, err := configv1.ParseYAML("f", written)
			require.NoError(t, err, "%s", written)
			require.Len(t, again, 1)
			require.Empty(t, cmp.Diff(d.Object, again[0].Object, protocmp.Transform()))
		}
	})
}
