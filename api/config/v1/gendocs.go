//go:build ignore

// This program writes the table of fields in the threat model. It is run in its folder, as go run gendocs.go FILE.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const head = "| field | | why |\n|---|---|---|\n"

func main() {
	file := os.Args[1]
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	before, rest, found := bytes.Cut(text, []byte(head))
	end := bytes.Index(rest, []byte("\n\n"))
	if !found || end < 0 {
		log.Fatal(file + " has no table of fields")
	}
	var rows []string
	messages := configv1.File_api_config_v1_config_proto.Messages()
	for i := range messages.Len() {
		rows = append(rows, rowsOf(messages.Get(i))...)
	}
	slices.Sort(rows)
	out := append(bytes.Clone(before), head...)
	for _, row := range rows {
		out = append(out, row...)
	}
	out = append(out, rest[end+1:]...)
	if err := os.WriteFile(file, out, 0o644); err != nil {
		log.Fatal(err)
	}
}

// rowsOf returns a row for each field that states its secrecy, and one for the message's statement about the others.
func rowsOf(m protoreflect.MessageDescriptor) []string {
	var rows []string
	add := func(name string, f *options.Field) {
		if is, why := f.SecrecyAndReason(); is != "" {
			rows = append(rows, fmt.Sprintf("| `%s.%s` | %s | %s |\n", m.Name(), name, is, why))
		}
	}
	add("*", options.OfFields(m))
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		add(string(fd.Name()), options.Of(fd))
	}
	return rows
}
