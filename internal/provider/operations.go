package provider

import (
	"slices"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Names of operations that have a codec. Those of Native are named like their paths, without the slash.
const (
	OpChat        = "chat/completions"
	OpCompletions = "completions"
	OpEmbeddings  = "embeddings"
	OpRerank      = "rerank"
	OpModerations = "moderations"
	OpRealtime    = "realtime"
	OpResponses   = "responses"
)

// Operations returns the names of the operations that a provider of the vendor can be configured to serve.
func (p Provider) Operations() []string {
	var names []string
	for _, o := range []struct {
		name string
		has  bool
	}{
		{OpChat, p.Chat != nil}, {OpCompletions, p.Completion != nil}, {OpEmbeddings, p.Embedding != nil},
		{OpRerank, p.Rerank != nil}, {OpModerations, p.Moderation != nil}, {OpRealtime, p.Realtime != nil},
	} {
		if o.has {
			names = append(names, o.name)
		}
	}
	for _, path := range slices.Concat(p.Native, p.Optional) {
		names = append(names, path[1:])
	}
	return names
}

// Serves reports whether a provider with this configuration serves an operation of its vendor.
func (p Provider) Serves(c *configv1.Provider, operation string) bool {
	if named := c.GetOperations(); len(named) > 0 {
		return slices.Contains(named, operation)
	}
	return !slices.Contains(p.Optional, "/"+operation)
}

// For returns the provider with only the operations of a configuration. The others are translated, as for a vendor
// that never has them.
func (p Provider) For(c *configv1.Provider) Provider {
	if len(c.GetOperations()) == 0 {
		return p
	}
	serves := func(operation string) bool { return p.Serves(c, operation) }
	if !serves(OpChat) {
		p.Messages, p.Gemini = nil, nil
		if !p.ChatOverResponses || !serves(OpResponses) {
			p.Chat = nil
		}
	}
	if !serves(OpCompletions) {
		p.Completion = nil
	}
	if !serves(OpEmbeddings) {
		p.Embedding = nil
	}
	if !serves(OpRerank) {
		p.Rerank = nil
	}
	if !serves(OpModerations) {
		p.Moderation = nil
	}
	if !serves(OpRealtime) {
		p.Realtime = nil
	}
	p.Native = slices.DeleteFunc(slices.Concat(p.Native, p.Optional), func(path string) bool { return !serves(path[1:]) })
	return p
}
