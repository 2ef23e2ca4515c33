// Package openai holds the types of the API that the gateway serves: what it reads of requests, and how it writes
// answers, streams and errors. Only the fields that the gateway acts on are typed; the rest stays bytes.
//
// Names are matched exactly and duplicates are refused (unlike encoding/json), because a
// second "Model" or "model" that one reader sees and another does not is a way around a policy.
package openai
