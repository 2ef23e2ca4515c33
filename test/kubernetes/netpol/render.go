package main

import (
	"fmt"
	"slices"
	"strings"
)

// render writes all policies as one table. What a pod sends passes its chain of egress and then that of ingress of the
// pod it is for, each of which exists for pods that a policy selects, and drops what no rule of theirs lets through.
func (w *world) render() (string, error) {
	var chains strings.Builder
	maps := map[string][]string{}
	for _, p := range w.live() {
		for _, direction := range []string{"ingress", "egress"} {
			rules, isolated, err := w.rulesOf(p, direction)
			if err != nil {
				return "", err
			}
			if !isolated {
				continue
			}
			name := direction + "-" + strings.ReplaceAll(p.Status.PodIP, ".", "-")
			fmt.Fprintf(&chains, "chain %s {\n%s drop comment %q\n}\n", name, strings.Join(rules, ""), p.Metadata.Namespace+"/"+
				p.Metadata.Name)
			maps[direction] = append(maps[direction], p.Status.PodIP+" : jump "+name)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "table inet netpol {\n%s", chains.String())
	for _, side := range [][2]string{{"ingress", "daddr"}, {"egress", "saddr"}} {
		direction, address := side[0], side[1]
		var verdicts string
		if entries := maps[direction]; len(entries) > 0 {
			verdicts = fmt.Sprintf(" ip %s vmap { %s }\n", address, strings.Join(entries, ", "))
		}
		fmt.Fprintf(&table, "chain %s {\n%s}\n", direction, verdicts)
	}
	table.WriteString("chain forward {\n type filter hook forward priority 0; policy accept;\n ct state established,related accept\n jump egress\n jump ingress\n}\n")
	table.WriteString("chain input {\n type filter hook input priority 0; policy accept;\n ct state established,related accept\n jump egress\n}\n}\n")
	return table.String(), nil
}

// rulesOf are what the policies let through for a pod, and whether any selects it.
func (w *world) rulesOf(p pod, direction string) (rules []string, isolated bool, err error) {
	for _, policy := range w.Policies.Items {
		if policy.Metadata.Namespace != p.Metadata.Namespace || !policy.Spec.PodSelector.matches(p.Metadata.Labels) {
			continue
		}
		if !slices.ContainsFunc(policy.Spec.PolicyTypes, func(t string) bool { return strings.EqualFold(t, direction) }) {
			continue
		}
		isolated = true
		home := policy.Metadata.Namespace
		if direction == "ingress" {
			for _, rule := range policy.Spec.Ingress {
				more, err := w.rule(home, "saddr", rule.From, rule.Ports, &p)
				if err != nil {
					return nil, true, err
				}
				rules = append(rules, more...)
			}
			continue
		}
		for _, rule := range policy.Spec.Egress {
			more, err := w.rule(home, "daddr", rule.To, rule.Ports, nil)
			if err != nil {
				return nil, true, err
			}
			rules = append(rules, more...)
		}
	}
	return rules, isolated, nil
}

// rule is one rule of a policy: for each peer and port, a line that returns. Named ports are those of the pod that is
// reached: of itself, or where that is nil, of each peer.
func (w *world) rule(home, address string, peers []peer, ports []port, itself *pod) ([]string, error) {
	if len(peers) == 0 {
		return lines("", ports, itself)
	}
	var all []string
	for _, by := range peers {
		if by.IPBlock != nil {
			if strings.Contains(by.IPBlock.CIDR, ":") {
				continue // no pod has an address of IPv6
			}
			match := fmt.Sprintf("ip %s %s ", address, by.IPBlock.CIDR)
			for _, except := range by.IPBlock.Except {
				match += fmt.Sprintf("ip %s != %s ", address, except)
			}
			more, err := lines(match, ports, itself)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
			continue
		}
		for _, p := range w.selected(home, by) {
			reached := itself
			if reached == nil {
				reached = &p
			}
			more, err := lines(fmt.Sprintf("ip %s %s ", address, p.Status.PodIP), ports, reached)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

func lines(match string, ports []port, reached *pod) ([]string, error) {
	if len(ports) == 0 {
		return []string{" " + match + "return\n"}, nil
	}
	var all []string
	for _, p := range ports {
		protocol := strings.ToLower(p.Protocol)
		if protocol == "" {
			protocol = "tcp"
		}
		var number string
		switch value := p.Port.(type) {
		case nil:
			number = "0-65535"
		case float64:
			number = fmt.Sprint(int(value))
			if p.EndPort > 0 {
				number += fmt.Sprintf("-%d", p.EndPort)
			}
		case string:
			if reached == nil {
				return nil, fmt.Errorf("a port by its name %q needs pods to be the peers", value)
			}
			named := reached.named(value, protocol)
			if named == 0 {
				continue
			}
			number = fmt.Sprint(named)
		}
		all = append(all, fmt.Sprintf(" %s%s dport %s return\n", match, protocol, number))
	}
	return all, nil
}
