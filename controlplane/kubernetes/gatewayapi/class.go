package gatewayapi

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// newest is the newest version of the Gateway API, 1.x, whose fields are known. What is newer works, as far as its
// objects have no other fields.
const newest = 6

// A class is a GatewayClass of ours.
type class struct {
	object  *unstructured.Unstructured
	problem *problem
}

// class returns a GatewayClass, or nil for one of another controller.
func (p *Plan) class(o *unstructured.Unstructured) *class {
	spec := specOf(o)
	if spec.text("controllerName", "") != p.world.Controller {
		return nil
	}
	spec.text("description", "")
	c := &class{object: o}
	if at := spec.unread(); at != "" {
		c.problem = trouble("InvalidParameters", "%s has no effect in this gateway", at)
	}
	return c
}

// supported reports whether all fields of a version of the definitions are known, such as v1.6.3.
func supported(bundle string) bool {
	minor, _, _ := strings.Cut(strings.TrimPrefix(bundle, "v1."), ".")
	n, err := strconv.Atoi(minor)
	return err == nil && strings.HasPrefix(bundle, "v1.") && n <= newest
}
