package configv1

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// Marshal returns the stored form of an object: compact protojson with the names of the .proto file. Equal objects
// give equal bytes.
func Marshal(o Object) ([]byte, error) {
	spaced, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", Label(o), err)
	}
	// protojson inserts random spaces, so that its output is not compared.
	var compact bytes.Buffer
	if err := json.Compact(&compact, spaced); err != nil {
		return nil, fmt.Errorf("encode %s: %w", Label(o), err)
	}
	return compact.Bytes(), nil
}

// MarshalJSON returns an object as a document: its kind, then its fields. [ParseJSON] reads it back.
func MarshalJSON(o Object) ([]byte, error) {
	fields, err := Marshal(o)
	if err != nil {
		return nil, err
	}
	doc := append([]byte(`{"kind":"`), nameOf(o)...)
	doc = append(doc, '"')
	if len(fields) > len("{}") {
		doc = append(doc, ',')
	}
	return append(doc, fields[1:]...), nil
}

// MarshalYAML returns an object as a YAML document without a marker: its kind, then its fields in the order of the
// .proto file. [ParseYAML] reads it back.
func MarshalYAML(o Object) ([]byte, error) {
	data, err := Marshal(o)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("encode %s: %w", Label(o), err)
	}
	doc := []byte("kind: " + nameOf(o) + "\n")
	for _, name := range fieldNames(o.ProtoReflect().Descriptor().Fields()) {
		value, ok := fields[name]
		if !ok {
			continue
		}
		part, err := yaml.Marshal(map[string]json.RawMessage{name: value})
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", Label(o), err)
		}
		doc = append(doc, part...)
	}
	return doc, nil
}
