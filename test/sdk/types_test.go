package sdk_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/inbound/kinds"
	"github.com/modelgate/modelgate/internal/testenv"
)

// TestEveryTypeOfTheSDKsHasADecision reads the unions of items, parts, tools and blocks from the type definitions of
// the SDKs. What becomes of each member when a request is translated must be in a table.
func TestEveryTypeOfTheSDKsHasADecision(t *testing.T) {
	const openai, anthropic = "openai/resources/responses/responses.d.ts", "@anthropic-ai/sdk/resources/beta/messages/messages.d.ts"
	for _, c := range []struct {
		file, union string
		table       kinds.Table
		least       int
	}{
		{openai, "ResponseInputItem", kinds.Items, 25},
		{openai, "ResponseItem", kinds.Items, 25},
		{openai, "ResponseOutputItem", kinds.Items, 25},
		{openai, "ResponseInputContent", kinds.Parts, 3},
		{openai, "ResponseFunctionCallOutputItem", kinds.Parts, 3},
		{openai, "Tool", kinds.Tools, 14},
		{anthropic, "BetaToolUnion", kinds.MessageTools, 12},
		{anthropic, "BetaContentBlockParam", kinds.Blocks, 20},
		{anthropic, "BetaContentBlock", kinds.Blocks, 10},
		{anthropic, "content of BetaToolResultBlockParam", kinds.ResultBlocks, 5},
		{anthropic, "content of BetaSystemMessageParam", kinds.SystemBlocks, 1},
	} {
		t.Run(c.union, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("node", "node_modules", filepath.FromSlash(c.file)))
			if os.IsNotExist(err) {
				testenv.Missing(t, "the Node SDK", "test/sdk/setup.sh")
			}
			require.NoError(t, err)
			types := definitions(string(text)).types(t, c.union)
			require.GreaterOrEqual(t, len(types), c.least, "the definitions are written in another way")
			for _, typ := range types {
				if strings.HasPrefix(c.union, "BetaTool") {
					typ = kinds.Undated(typ)
				}
				require.Contains(t, c.table, typ, "%s has the type %q, for which package kinds has no decision", c.union, typ)
			}
		})
	}
}

// TestNoDecisionIsMissing checks the tables themselves, also where no SDK is installed.
func TestNoDecisionIsMissing(t *testing.T) {
	decisions := []kinds.Decision{kinds.Translated, kinds.Text, kinds.Dropped, kinds.Refused}
	for _, table := range []kinds.Table{kinds.Items, kinds.Parts, kinds.Tools, kinds.MessageTools, kinds.Blocks,
		kinds.ResultBlocks, kinds.SystemBlocks} {
		for _, typ := range slices.Sorted(maps.Keys(table)) {
			require.Contains(t, decisions, table[typ].Decision, typ)
			require.NotEmpty(t, table[typ].Note, typ)
		}
	}
}

// definitions is the text of a file of type definitions, as Stainless generates them.
type definitions string

var (
	names   = regexp.MustCompile(`[A-Za-z_][\w.]*`)
	literal = regexp.MustCompile(`(?m)^ {4,8}type\??: ([^;]*);`)
	word    = regexp.MustCompile(`'([^']*)'`)
)

// types returns the values of the member type in the members of a union, which is a type or "content of" an interface.
func (d definitions) types(t *testing.T, union string) []string {
	t.Helper()
	found := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		name = strings.TrimPrefix(name, "ResponsesAPI.")
		if all := d.union(name); all != "" {
			for _, member := range names.FindAllString(all, -1) {
				add(member)
			}
			return
		}
		body, parent := d.body(name)
		require.NotEmpty(t, body+parent, "%s is neither a union nor an interface", name)
		m := literal.FindStringSubmatch(body)
		if m == nil && parent != "" {
			add(parent)
			return
		}
		require.NotNil(t, m, "%s has no type", name)
		for _, w := range word.FindAllStringSubmatch(m[1], -1) {
			found[w[1]] = true
		}
	}
	if of, ok := strings.CutPrefix(union, "content of "); ok {
		body, _ := d.body(of)
		m := regexp.MustCompile(`(?m)^    content\??: (.*);`).FindStringSubmatch(body)
		require.NotNil(t, m, "%s has no content", of)
		for _, member := range names.FindAllString(m[1], -1) {
			if member != "string" && member != "Array" && member != "null" {
				add(member)
			}
		}
	} else {
		add(union)
	}
	return slices.Sorted(maps.Keys(found))
}

// union returns the members of a union as they are written, or "".
func (d definitions) union(name string) string {
	m := regexp.MustCompile(`(?m)^export type ` + regexp.QuoteMeta(name) + ` = ([^;]*);`).FindStringSubmatch(string(d))
	if m == nil {
		return ""
	}
	return m[1]
}

// body returns the members of an interface, which may be in a namespace, and the interface that it extends, or "".
func (d definitions) body(name string) (body, parent string) {
	text, indent := string(d), ""
	if space, inner, ok := strings.Cut(name, "."); ok {
		_, text, ok = strings.Cut(text, "export declare namespace "+space+" {\n")
		if !ok {
			return "", ""
		}
		name, indent = inner, "    "
	}
	const head, extends = `(?:export )?interface `, ` (?:extends ([\w.]+) )?\{`
	m := regexp.MustCompile(`(?m)^` + indent + head + regexp.QuoteMeta(name) + extends).FindStringSubmatchIndex(text)
	if m == nil {
		return "", ""
	}
	if m[2] >= 0 {
		parent = text[m[2]:m[3]]
	}
	body, _, _ = strings.Cut(text[m[1]:], "\n"+indent+"}")
	return body, parent
}
