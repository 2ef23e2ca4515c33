package chat

import "github.com/modelgate/modelgate/api/openai"

// Begin returns the event that begins an answer.
func Begin(id string) Event { return Event{Kind: KindBegin, ID: id} }

// Role returns the event that begins a choice. Other events of a choice imply it. A codec emits it if the vendor
// announces the choice before its first token.
func Role(choice int) Event { return Event{Kind: KindRole, Choice: choice} }

// Text returns an event with a piece of a choice's content.
func Text(choice int, s string) Event { return Event{Kind: KindText, Choice: choice, Text: s} }

// Reasoning returns an event with a piece of a choice's reasoning.
func Reasoning(choice int, s string) Event {
	return Event{Kind: KindReasoning, Choice: choice, Text: s}
}

// Refusal returns an event with a piece of a choice's refusal.
func Refusal(choice int, s string) Event { return Event{Kind: KindRefusal, Choice: choice, Text: s} }

// ToolCall returns the event that begins a call of a tool.
func ToolCall(choice, call int, id, name string) Event {
	return Event{Kind: KindToolCall, Choice: choice, Call: call, ID: id, Name: name}
}

// Arguments returns an event with a fragment of the arguments of a call that has begun.
func Arguments(choice, call int, fragment string) Event {
	return Event{Kind: KindArguments, Choice: choice, Call: call, Text: fragment}
}

// Member returns an event with another member of a choice. The value is JSON.
func Member(choice int, name string, value []byte) Event {
	return Event{Kind: KindMember, Choice: choice, Name: name, JSON: value}
}

// Signed returns the event of a block of thinking that the vendor needs to have back.
func Signed(choice int, block []byte) Event {
	return Event{Kind: KindSigned, Choice: choice, JSON: block}
}

// Finish returns the event that ends a choice, with one of OpenAI's finish reasons.
func Finish(choice int, reason string) Event {
	return Event{Kind: KindFinish, Choice: choice, Text: reason}
}

// Usage returns an event with the usage so far.
func Usage(u openai.Usage) Event { return Event{Kind: KindUsage, Usage: &u} }

// Tier returns an event with the service tier. An empty tier has no effect.
func Tier(tier string) Event { return Event{Kind: KindTier, Text: tier} }

// End returns the event that completes an answer.
func End() Event { return Event{Kind: KindEnd} }
