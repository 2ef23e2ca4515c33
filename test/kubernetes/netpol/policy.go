package main

import (
	"slices"
	"strings"
)

type list[T any] struct{ Items []T }

// A world is what there is in the cluster.
type world struct {
	Pods       list[pod]
	Namespaces list[namespace]
	Policies   list[policy]
}

type metadata struct {
	Name, Namespace string
	Labels          map[string]string
}

type namespace struct{ Metadata metadata }

type pod struct {
	Metadata metadata
	Spec     struct {
		HostNetwork                bool
		Containers, InitContainers []struct{ Ports []containerPort }
	}
	Status struct{ Phase, PodIP string }
}

type containerPort struct {
	Name, Protocol string
	ContainerPort  int
}

type policy struct {
	Metadata metadata
	Spec     struct {
		PodSelector selector
		PolicyTypes []string
		Ingress     []struct {
			From  []peer
			Ports []port
		}
		Egress []struct {
			To    []peer
			Ports []port
		}
	}
}

type selector struct {
	MatchLabels      map[string]string
	MatchExpressions []struct {
		Key, Operator string
		Values        []string
	}
}

type peer struct {
	PodSelector, NamespaceSelector *selector
	IPBlock                        *struct {
		CIDR   string
		Except []string
	}
}

// A port is a number or a name, and with EndPort a range of numbers.
type port struct {
	Protocol string
	Port     any
	EndPort  int
}

func (s selector) matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		value, there := labels[e.Key]
		var ok bool
		switch e.Operator {
		case "In":
			ok = there && slices.Contains(e.Values, value)
		case "NotIn":
			ok = !there || !slices.Contains(e.Values, value)
		case "Exists":
			ok = there
		case "DoesNotExist":
			ok = !there
		}
		if !ok {
			return false
		}
	}
	return true
}

// live are the pods that have an address of their own.
func (w *world) live() []pod {
	return slices.DeleteFunc(slices.Clone(w.Pods.Items), func(p pod) bool {
		return p.Status.PodIP == "" || p.Spec.HostNetwork || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
	})
}

// selected are the pods that a peer of a policy in a namespace means.
func (w *world) selected(home string, by peer) []pod {
	var found []pod
	for _, p := range w.live() {
		inside := p.Metadata.Namespace == home
		if by.NamespaceSelector != nil {
			i := slices.IndexFunc(w.Namespaces.Items, func(n namespace) bool { return n.Metadata.Name == p.Metadata.Namespace })
			inside = i >= 0 && by.NamespaceSelector.matches(w.Namespaces.Items[i].Metadata.Labels)
		}
		if inside && (by.PodSelector == nil || by.PodSelector.matches(p.Metadata.Labels)) {
			found = append(found, p)
		}
	}
	return found
}

// named is the number of a port of a pod, and 0 where it has none of that name.
func (p pod) named(name, protocol string) int {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for _, port := range c.Ports {
			if port.Name == name && strings.EqualFold(port.Protocol, protocol) {
				return port.ContainerPort
			}
		}
	}
	return 0
}
