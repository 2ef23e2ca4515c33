package xds

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matchingv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extensionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	skipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/matcher/action/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	inputv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
)

// goodRequestID matches an x-request-id of a client that is kept, because it is written into logs and answers.
const goodRequestID = "[A-Za-z0-9._:-]{1,128}"

// ownRequestID replaces an id that does not match.
func ownRequestID() *hcmv3.HttpFilter {
	replace := &mutationv3.HeaderMutation{
		Mutations: &mutationv3.Mutations{RequestMutations: []*mutationrulesv3.HeaderMutation{{
			Action: &mutationrulesv3.HeaderMutation_Append{Append: header("x-request-id", "%UNIQUE_ID%")},
		}}}}
	good := &matchingv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &matchingv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: extension("x-request-id", &inputv3.HttpRequestHeaderMatchInput{HeaderName: "x-request-id"}),
			Matcher: &matchingv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &matchingv3.StringMatcher{
				MatchPattern: &matchingv3.StringMatcher_SafeRegex{SafeRegex: &matchingv3.RegexMatcher{
					Regex:      goodRequestID,
					EngineType: &matchingv3.RegexMatcher_GoogleRe2{GoogleRe2: &matchingv3.RegexMatcher_GoogleRE2{}},
				}},
			}},
		}}
	return httpFilter("mg.request_id", &extensionv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.header_mutation",
			TypedConfig: pack(replace)},
		XdsMatcher: &matchingv3.Matcher{MatcherType: &matchingv3.Matcher_MatcherList_{
			MatcherList: &matchingv3.Matcher_MatcherList{
				Matchers: []*matchingv3.Matcher_MatcherList_FieldMatcher{{
					Predicate: &matchingv3.Matcher_MatcherList_Predicate{MatchType: good},
					OnMatch: &matchingv3.Matcher_OnMatch{OnMatch: &matchingv3.Matcher_OnMatch_Action{Action: extension("skip",
						&skipv3.SkipFilter{})}},
				}},
			}}},
	})
}

func extension(name string, config proto.Message) *xdscorev3.TypedExtensionConfig {
	return &xdscorev3.TypedExtensionConfig{Name: name, TypedConfig: pack(config)}
}
