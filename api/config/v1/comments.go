package configv1

import (
	_ "embed" // of the .proto file
	"regexp"
	"slices"
	"strings"
)

//go:embed config.proto
var protoFile string

var (
	blockLine = regexp.MustCompile(`^\s*(message|enum|oneof) (\w+) \{`)
	fieldLine = regexp.MustCompile(`^\s*(?:repeated |optional )?(?:map<[^>]*>|[\w.]+) (\w+) = \d+`)
	noteLine  = regexp.MustCompile(`^\s*// ?(.*)$`)
)

// commentsOf returns the comments of a .proto file, by "Message" and "Message.field".
func commentsOf(file string) map[string]string {
	all := map[string]string{}
	var inside []string // messages; "" for a oneof, whose fields are the message's
	var note []string
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\n")
		if m := noteLine.FindStringSubmatch(line); m != nil {
			note = append(note, m[1])
			continue
		}
		text := strings.Join(note, " ")
		note = nil
		if m := blockLine.FindStringSubmatch(line); m != nil {
			name := m[2]
			if m[1] == "oneof" {
				name = ""
			} else {
				all[name] = text
			}
			inside = append(inside, name)
		} else if m := fieldLine.FindStringSubmatch(line); m != nil {
			all[ownerOf(inside)+"."+m[1]] = text
		} else if strings.TrimSpace(line) == "}" && len(inside) > 0 {
			inside = inside[:len(inside)-1]
		}
	}
	return all
}

// ownerOf returns the innermost message.
func ownerOf(inside []string) string {
	for _, name := range slices.Backward(inside) {
		if name != "" {
			return name
		}
	}
	return ""
}
