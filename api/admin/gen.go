//go:build ignore

// Gen makes Go of openapi.yaml by oapi-codegen, once for each file in the folder codegen. It first simplifies the
// description: parameters and answers stand where they are referred to, members are in their order, an optional member is
// a pointer only if it is a time or an object, and an enumeration is a string unless its constants have names.
package main

import (
	"bytes"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	text, err := simplified("openapi.yaml")
	if err != nil {
		log.Fatal(err)
	}
	configs, err := filepath.Glob("codegen/*.yaml")
	if err != nil {
		log.Fatal(err)
	}
	for _, config := range configs {
		run := exec.Command("go", "tool", "-modfile=../../tools/go.mod", "oapi-codegen", "-config", config, "/dev/stdin")
		run.Stdin, run.Stdout, run.Stderr = bytes.NewReader(text), os.Stdout, os.Stderr
		if err := run.Run(); err != nil {
			log.Fatalf("%s: %v", config, err)
		}
	}
}

func simplified(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	root := document.Content[0]
	components := member(root, "components")
	inline(member(root, "paths"), components)
	components.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: "schemas"}, member(components, "schemas")}
	simplify(root)
	return yaml.Marshal(root)
}

// inline puts parameters, bodies and answers that are described once in the place of references to them.
func inline(n, components *yaml.Node) {
	if ref := member(n, "$ref"); ref != nil {
		if parts := strings.Split(ref.Value, "/"); parts[2] != "schemas" {
			*n = *member(member(components, parts[2]), parts[3])
		}
	}
	for _, child := range n.Content {
		inline(child, components)
	}
}

// simplify rewrites a node and all nodes in it.
func simplify(n *yaml.Node) {
	for _, child := range n.Content {
		simplify(child)
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	if properties := member(n, "properties"); properties != nil && properties.Kind == yaml.MappingNode {
		for i := 1; i < len(properties.Content); i += 2 {
			set(properties.Content[i], "x-order", strconv.Itoa(i))
			if member(properties.Content[i], "$ref") != nil {
				set(properties.Content[i], "x-go-type-skip-optional-pointer", "false")
			}
		}
	}
	if types := member(n, "type"); types != nil && types.Kind == yaml.SequenceNode { // [string, "null"]
		*types = *types.Content[0]
	}
	if member(n, "enum") != nil && member(n, "x-enum-varnames") == nil {
		at := slices.IndexFunc(n.Content, func(c *yaml.Node) bool { return c.Value == "enum" })
		n.Content = slices.Delete(n.Content, at, at+2)
	}
	if format := member(n, "format"); format != nil && format.Value == "date-time" {
		set(n, "x-go-type-skip-optional-pointer", "false")
	}
}

// member returns the value of a member of a mapping, or nil.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// set adds a member to a mapping.
func set(n *yaml.Node, name, value string) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name},
		&yaml.Node{Kind: yaml.ScalarNode, Value: value})
}
