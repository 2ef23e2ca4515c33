package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/modelgate/modelgate/envoy"
)

// retryFilters convert an attempt at one provider to an attempt at another. Their order is important for security: the
// credentials of the earlier attempt are removed before the ext_proc service is called, whatever it answers.
func retryFilters(strip []string) []*hcmv3.HttpFilter {
	length := "%DYNAMIC_METADATA(" + envoy.Metadata + ":" + envoy.MetadataContentLength + ")%"
	return []*hcmv3.HttpFilter{
		httpFilter("mg.strip", removeHeaders(strip)),
		httpFilter(retryExtProcFilter, upstreamExtProc()),
		// A replaced body loses its length, and would be sent in chunks.
		httpFilter("mg.content_length", requestMutations(&mutationv3.HeaderMutation{
			Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: "content-length", Value: length},
				AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
			}},
		})),
		httpFilter("envoy.filters.http.upstream_codec", &codecv3.UpstreamCodec{}),
	}
}

func removeHeaders(names []string) *headersv3.HeaderMutation {
	var removals []*mutationv3.HeaderMutation
	for _, name := range names {
		removals = append(removals, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Remove{Remove: name}})
	}
	return requestMutations(removals...)
}

func requestMutations(mutations ...*mutationv3.HeaderMutation) *headersv3.HeaderMutation {
	return &headersv3.HeaderMutation{Mutations: &headersv3.Mutations{RequestMutations: mutations}}
}

// headersToStrip returns, sorted and in lower case, all headers with credentials of any vendor, and all headers in any
// provider's configuration. Providers with an invalid header are not built, so it is not included.
func (b *builder) headersToStrip() []string {
	set := map[string]bool{"authorization": true}
	for _, vendor := range b.options.Providers {
		for _, name := range vendor.CredentialHeaders {
			set[strings.ToLower(name)] = true
		}
	}
	for _, p := range b.providers {
		for name := range p.GetProvider().GetHeaders() {
			if headerName(name) {
				set[strings.ToLower(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func checkHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if !headerName(name) {
			return fmt.Errorf("headers: %q is not the name of a header", name)
		}
		if strings.ContainsAny(headers[name], "\x00\r\n") {
			return fmt.Errorf("headers: the value of %q has a line break", name)
		}
	}
	return nil
}

// headerName reports whether name is a token as of RFC 9110, section 5.6.2.
func headerName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
			return false
		default:
			return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
		}
	})
}
