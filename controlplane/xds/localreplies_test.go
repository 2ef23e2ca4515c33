package xds

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"

	"github.com/modelgate/modelgate/internal/golden"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// localReplyGoldens returns the configurations of local replies, by their golden file. There is one for each set of
// dialects that a listener serves.
func localReplyGoldens() map[string]*hcmv3.LocalReplyConfig {
	return map[string]*hcmv3.LocalReplyConfig{
		filepath.Join("testdata", "local-replies", "openai.yaml"):        localReplies(),
		filepath.Join("testdata", "local-replies", "every-dialect.yaml"): localReplies(dialects.Others()...),
	}
}

// tree returns the JSON form of a message.
func tree(t *testing.T, m proto.Message) any {
	t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	require.NoError(t, err)
	var v any
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}

// shorten replaces each configuration of local replies in v by the name of its golden file. A configuration without a
// golden file stays whole, so that a review sees it.
func shorten(t *testing.T, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, member := range v {
			shorten(t, member)
		}
	case map[string]any:
		for name, member := range v {
			if name != "local_reply_config" {
				shorten(t, member)
				continue
			}
			for path, config := range localReplyGoldens() {
				if reflect.DeepEqual(tree(t, config), member) {
					v[name] = "see " + path
				}
			}
		}
	}
}

func TestLocalRepliesGolden(t *testing.T) {
	for path, config := range localReplyGoldens() {
		text, err := yaml.Marshal(tree(t, config))
		require.NoError(t, err)
		golden.Bytes(t, path, text)
	}
}

// Whatever changes in a listener's local replies shows in its golden.
func TestAListenersGoldenNamesNoLocalRepliesButItsOwn(t *testing.T) {
	rendered := func(config *hcmv3.LocalReplyConfig) string {
		manager, err := anypb.New(&hcmv3.HttpConnectionManager{LocalReplyConfig: config})
		require.NoError(t, err)
		return string(render(t, []Resource{{Message: &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{
			Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager}}}}}}}}))
	}
	seen := map[string]bool{rendered(nil): true}
	for path, config := range localReplyGoldens() {
		text := rendered(config)
		require.Contains(t, text, "local_reply_config: see "+path+"\n")
		require.NotContains(t, text, "mappers")
		require.NotContains(t, seen, text)
		seen[text] = true

		last := len(config.GetMappers()) - 1
		for name, change := range map[string]func([]*hcmv3.ResponseMapper){
			"order":  func(m []*hcmv3.ResponseMapper) { m[0], m[last] = m[last], m[0] },
			"filter": func(m []*hcmv3.ResponseMapper) { m[0].Filter = ofEnvoy(418) },
			"status": func(m []*hcmv3.ResponseMapper) { m[last].StatusCode = wrapperspb.UInt32(418) },
			"header": func(m []*hcmv3.ResponseMapper) { m[last].HeadersToAdd[0].Header.Value = "" },
			"body":   func(m []*hcmv3.ResponseMapper) { m[last].BodyFormatOverride = nil },
		} {
			changed := proto.CloneOf(config)
			change(changed.GetMappers())
			text := rendered(changed)
			require.NotContains(t, text, "local_reply_config: see", name)
			require.Contains(t, text, "mappers:", name)
		}
		changed := proto.CloneOf(config)
		changed.Mappers = changed.GetMappers()[:last]
		require.NotContains(t, rendered(changed), "local_reply_config: see", "a reply is missing")
	}
}
