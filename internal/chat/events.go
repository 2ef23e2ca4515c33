package chat

import "github.com/modelgate/modelgate/api/openai"

// Begin is the beginning of an answer.
func Begin(id string) Event { return Event{Kind: KindBegin, ID: id} }

// Role is the beginning of a choice. What else a choice has implies it; a codec tells it where the vendor announces
// the choice before its first token.
func Role(choice int) Event { return Event{Kind: KindRole, Choice: choice} }

// Text is a piece of a choice's content.
func Text(choice int, s string) Event { return Event{Kind: KindText, Choice: choice, Text: s} }

// Reasoning is a piece of a choice's reasoning.
func Reasoning(choice int, s string) Event {
	return Event{Kind: KindReasoning, Choice: choice, Text: s}
}

// Refusal is a piece of a choice's refusal.
func Refusal(choice int, s string) Event { return Event{Kind: KindRefusal, Choice: choice, Text: s} }

// ToolCall is the beginning of a choice's call of a tool.
func ToolCall(choice, call int, id, name string) Event {
	return Event{Kind: KindToolCall, Choice: choice, Call: call, ID: id, Name: name}
}

// Arguments is a fragment of the arguments of a call that has begun.
func Arguments(choice, call int, fragment string) Event {
	return Event{Kind: KindArguments, Choice: choice, Call: call, Text: fragment}
}

// Member is another member of what a choice says. The value is JSON.
func Member(choice int, name string, value []byte) Event {
	return Event{Kind: KindMember, Choice: choice, Name: name, JSON: value}
}

// Finish is the end of a choice, with one of OpenAI's finish reasons.
func Finish(choice int, reason string) Event {
	return Event{Kind: KindFinish, Choice: choice, Text: reason}
}

// Usage is what the answer has used so far.
func Usage(u openai.Usage) Event { return Event{Kind: KindUsage, Usage: &u} }

// Tier is the service tier that the vendor has given. What is empty says nothing.
func Tier(tier string) Event { return Event{Kind: KindTier, Text: tier} }

// End is the end of an answer that is complete.
func End() Event { return Event{Kind: KindEnd} }
