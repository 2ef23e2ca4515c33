package envoygateway

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/stretchr/testify/require"
)

func prefix(p string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: p}}
}

func below(p string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: p}}
}

func exact(p string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: p}}
}

func expression(p string) *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: p}}}
}

// A rule never matches more than its author wrote, and what the gateway treats apart stays apart.
func TestWhatARuleAndAnEntryRouteBothMatch(t *testing.T) {
	for name, c := range map[string]struct {
		theirs, own, want *routev3.RouteMatch
		whole             bool
	}{
		"all, and a path":              {prefix("/"), exact("/v1/realtime"), exact("/v1/realtime"), false},
		"a folder, and one in it":      {below("/v1"), below("/v1/files"), below("/v1/files"), false},
		"a folder, and all":            {below("/v1"), prefix("/"), below("/v1"), true},
		"a path, and its folder":       {exact("/v1/files/x"), below("/v1/files"), exact("/v1/files/x"), true},
		"the same folder":              {below("/v1/files"), below("/v1/files"), below("/v1/files"), true},
		"a name that begins like that": {below("/v1/filesystem"), below("/v1/files"), nil, false},
		"another path":                 {exact("/v1/chat/completions"), exact("/v1/realtime"), nil, false},
		"an expression, and a path":    {expression("/v1/.*"), exact("/v1/realtime"), nil, false},
		"an expression, and all":       {expression("/v1/.*"), prefix("/"), expression("/v1/.*"), true},
	} {
		match, whole := narrowed(c.theirs, c.own)
		require.Equal(t, c.want.String(), match.String(), name)
		require.Equal(t, c.whole, whole, name)
	}
	theirs := below("/v1")
	theirs.Headers = []*routev3.HeaderMatcher{{Name: "x-team"}}
	match, _ := narrowed(theirs, exact("/v1/realtime"))
	require.Len(t, match.GetHeaders(), 1, "its other conditions hold, too")
}

func TestMarks(t *testing.T) {
	for rule, want := range map[string]string{"modelgate": "default", "modelgate.edge": "edge", "modelgated": "", "": "",
		"x": ""} {
		gateway, ok := Marked(rule)
		require.Equal(t, want != "", ok, rule)
		if ok {
			require.Equal(t, want, gateway, rule)
		}
	}
}
