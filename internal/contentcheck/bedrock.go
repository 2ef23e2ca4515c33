package contentcheck

import (
	"context"
	"sync"
)

// bedrockText is how many characters are sent to Bedrock at once: its quotas count text units of 1,000, and a
// request has at most 25 of them by default.
const bedrockText = 20_000

// A bedrockFinding is one of any policy: a topic, a filter, a word, an entity or an expression.
type bedrockFinding struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Action string `json:"action"` // NONE: it was only detected
	Match  string `json:"match"`  // of a word, an entity or an expression
}

// A bedrockAnswer is the answer of ApplyGuardrail
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ApplyGuardrail.html), as far as it is read.
type bedrockAnswer struct {
	Action      string `json:"action"`
	Assessments []struct {
		Topics struct {
			Found []bedrockFinding `json:"topics"`
		} `json:"topicPolicy"`
		Content struct {
			Found []bedrockFinding `json:"filters"`
		} `json:"contentPolicy"`
		Words struct {
			Custom  []bedrockFinding `json:"customWords"`
			Managed []bedrockFinding `json:"managedWordLists"`
		} `json:"wordPolicy"`
		Sensitive struct {
			Entities    []bedrockFinding `json:"piiEntities"`
			Expressions []bedrockFinding `json:"regexes"`
		} `json:"sensitiveInformationPolicy"`
	} `json:"assessments"`
}

// bedrock has a guardrail of Amazon Bedrock judge texts.
func (c *Checker) bedrock(ctx context.Context, call *Call) (*Verdict, error) {
	type text struct {
		Text string `json:"text"`
	}
	type block struct {
		Text text `json:"text"`
	}
	source := "INPUT"
	if call.Answer {
		source = "OUTPUT"
	}
	v := &Verdict{Flags: map[string]bool{}}
	var mu sync.Mutex // guards v
	err := eachPiece(ctx, call, bedrockText, func(ctx context.Context, piece string) error {
		asked := map[string]any{"source": source, "content": []block{{text{piece}}}}
		var said bedrockAnswer
		if err := c.post(ctx, c.config.GetUrl(), c.bearer(), asked, &said); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch said.Action {
		case "NONE":
		case "GUARDRAIL_INTERVENED":
			v.Flagged = true
		default:
			return errReading
		}
		for _, a := range said.Assessments {
			v.flag(a.Topics.Found, "")
			v.flag(a.Content.Found, "")
			v.flag(a.Words.Custom, "WORD")
			v.flag(a.Words.Managed, "")
			v.flag(a.Sensitive.Entities, "")
			v.flag(a.Sensitive.Expressions, "")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// flag adds what was found, as the name, the type, or what else it is called.
func (v *Verdict) flag(found []bedrockFinding, called string) {
	for _, f := range found {
		name := called
		switch {
		case name != "":
		case f.Name != "":
			name = f.Name
		default:
			name = f.Type
		}
		acted := f.Action != "NONE"
		v.Flags[name] = v.Flags[name] || acted
		if acted && f.Match != "" {
			v.Matches = append(v.Matches, Match{Text: f.Match, Category: name})
		}
	}
}
