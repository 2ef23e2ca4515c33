// Package chain has the filters that decide about requests, in their order, and chooses the passage of each request.
//
// The order is the list below. A filter that needs what another one has found out stands behind it, and a cheap one
// before a dear one.
package chain

import (
	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/filters/cache"
	"github.com/modelgate/modelgate/extproc/filters/checkers"
	"github.com/modelgate/modelgate/extproc/filters/door"
	"github.com/modelgate/modelgate/extproc/filters/guardrails"
	"github.com/modelgate/modelgate/extproc/filters/identity"
	"github.com/modelgate/modelgate/extproc/filters/keep"
	"github.com/modelgate/modelgate/extproc/filters/limits"
	"github.com/modelgate/modelgate/extproc/filters/policies"
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/extproc/filters/turn"
)

// A stage is the part of a request's way on which a filter decides.
type stage uint8

// The stages, in their order.
const (
	onArrival stage = iota // of the headers
	onClient               // it is not known yet who the client is
	onEntry                // the client is known, and the passage
	onBody                 // the body has to be read
	onContent              // the content is known, if the passage reads it
	onPlan                 // it is known who gets the request, and what it may use
)

// A place is where a filter stands in the chain.
type place struct {
	stage  stage
	name   string
	filter func(*account.Account) call.Filter // nil: it has nothing to do with the request
	reason string                             // why it stands here
}

// list is the order of all filters.
var list = [...]place{
	{onArrival, "memory", room.Memory, "nothing else costs as little, and without memory nothing else is done"},
	{onClient, "identity", identity.New, "all others ask whose request it is"},
	{onEntry, "door", door.New, "who is over a limit sends no body"},
	{onBody, "room", room.Announced, "a body is read only if there is room for it"},
	{onContent, "policies", policies.New, "they may choose the model, on which guardrails, caches and limits depend"},
	{onContent, "guardrails", guardrails.New, "what they refuse or mask, checkers, caches and providers do not see"},
	{onContent, "checkers", checkers.New, "they cost a request to a service, so they judge what guardrails let pass"},
	{onContent, "cache", cache.New, "a kept answer is for a request that may be sent, and needs no provider"},
	{onPlan, "keep", keep.New, "a request is kept also if a limit refuses it"},
	{onPlan, "limits", limits.New, "what is reserved depends on the models and prices of the plan"},
	{onPlan, "turn", turn.New, "only a request that nothing refuses waits for a place"},
}
