package respcache_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/respcache"
)

// TestToolsAreSeenInEveryShape: an answer to a request that offers tools is not kept, however they are written.
func TestToolsAreSeenInEveryShape(t *testing.T) {
	c := compile(t, nil, &configv1.ResponseCache{Name: "c", Organization: "acme"})[0]
	for members, want := range map[string]string{
		`"to\u006fls":[{"name":"f"}]`: respcache.ReasonTools, `"tools":{"googleSearch":{}}`: respcache.ReasonTools,
		`"enable_search":true`: respcache.ReasonTools, `"container":{"skills":[]}`: respcache.ReasonTools,
		`"st\u006fre":true`: respcache.ReasonStored, `"tools":[]`: "", `"tools":null,"user":"u"`: "",
		`"temper\u0061ture":2`: respcache.ReasonTemperature,
	} {
		body := []byte(`{"seed":1,` + members + `}`)
		require.Equal(t, want, c.Refuses(openai.MembersOf(body), offered.Read(body), want == respcache.ReasonTemperature),
			members)
	}
}
