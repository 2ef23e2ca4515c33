package envoygateway

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// Mark is the name of a rule of an HTTPRoute that leads to models. It is that of the Gateway default: the name of
	// another follows after a dot. A name is all that Envoy Gateway tells of a rule in every mode that it has.
	Mark = "modelgate"
	// defaultGateway is the Gateway of a mark that names none.
	defaultGateway = "default"
	// Revision is the annotation of an HTTPRoute that says which content is wanted.
	Revision = "gateway.envoyproxy.io/" + revisionKey
	// revisionKey is how Envoy Gateway shows it.
	revisionKey = "modelgate-revision"
)

// Marked returns which Gateway the rule of a name is for. Ok is false if it is for none.
func Marked(rule string) (gateway string, ok bool) {
	if rule == Mark {
		return defaultGateway, true
	}
	return strings.CutPrefix(rule, Mark+".")
}

// markOf returns which Gateway a route is for that Envoy Gateway has made, and the revision that is wanted.
func markOf(r *routev3.Route) (gateway, revision string, ok bool) {
	said := r.GetMetadata().GetFilterMetadata()["envoy-gateway"].GetFields()["resources"].GetListValue().GetValues()
	for _, resource := range said {
		of := resource.GetStructValue().GetFields()
		if of["kind"].GetStringValue() != "HTTPRoute" {
			continue
		}
		if gateway, ok = Marked(of["sectionName"].GetStringValue()); ok {
			return gateway, annotation(of["annotations"], revisionKey), true
		}
	}
	return "", "", false
}

func annotation(all *structpb.Value, key string) string {
	return all.GetStructValue().GetFields()[key].GetStringValue()
}
