// Package openai has the types of the API that the gateway serves: how requests are read, and how answers, streams and
// errors are written. Only the fields that the gateway uses are typed; the rest stays bytes.
//
// Names are matched exactly and duplicates are refused, unlike in encoding/json. If a request had both "Model" and
// "model", two readers could see different values, which would bypass a policy.
package openai
