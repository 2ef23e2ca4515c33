package gatewayapi

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// targetOf returns the port of the data plane to which the Service leads from a port of clients.
func (p *Plan) targetOf(port uint32) (uint32, *problem) {
	name := p.world.ServiceName
	switch {
	case name == "":
		return port, nil
	case p.world.Service == nil:
		return 0, trouble(reasonPort, "the Service %s is not there, which leads to the data plane", name)
	}
	for _, s := range newLevel("", p.world.Service.Object["spec"]).each("ports") {
		if n, _ := s.number("port"); n != int64(port) || s.text("protocol", "TCP") != "TCP" {
			continue
		}
		if target, ok := s.number("targetPort"); ok && target > 0 {
			return uint32(target), nil //nolint:gosec // It is a port.
		}
		return 0, trouble(reasonPort, "port %d of the Service %s leads to a port by its name, and not by its number", port, name)
	}
	return 0, trouble(reasonPort, "the Service %s has no port %d, which leads to the data plane", name, port)
}

// overIPv6 reports whether the data plane is reached by IPv6 first.
func (p *Plan) overIPv6() bool {
	if p.world.Service == nil {
		return false
	}
	families, _, _ := unstructured.NestedStringSlice(p.world.Service.Object, "spec", "ipFamilies")
	return len(families) > 0 && families[0] == "IPv6"
}

// addresses returns where clients reach the data plane.
func (w *World) addresses() (all []any) {
	if w.Service == nil {
		return nil
	}
	add := func(value string) {
		kind := "Hostname"
		if _, err := netip.ParseAddr(value); err == nil {
			kind = "IPAddress"
		}
		all = append(all, map[string]any{"type": kind, "value": value})
	}
	spec := newLevel("", w.Service.Object["spec"])
	ingress, _, _ := unstructured.NestedSlice(w.Service.Object, "status", "loadBalancer", "ingress")
	for _, i := range ingress {
		one := newLevel("", i)
		if value := one.text("ip", one.text("hostname", "")); value != "" {
			add(value)
		}
	}
	external, _ := spec.take("externalIPs").([]any)
	for _, e := range external {
		if value, ok := e.(string); ok {
			add(value)
		}
	}
	if at := spec.text("clusterIP", "None"); len(all) == 0 && at != "None" && spec.text("type", "") != "LoadBalancer" {
		add(at)
	}
	return all
}
