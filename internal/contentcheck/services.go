package contentcheck

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"
)

// webhook asks a service of the operator's. It answers {"flagged": true, "categories": {"name": score},
// "found": [{"text": "...", "category": "name"}]}.
func (c *Checker) webhook(ctx context.Context, call *Call) (*Verdict, error) {
	of := "request"
	if call.Answer {
		of = "answer"
	}
	body, err := json.Marshal(struct {
		ID           string   `json:"id"`
		Key          string   `json:"key"`
		Organization string   `json:"organization,omitempty"`
		Project      string   `json:"project,omitempty"`
		Model        string   `json:"model"`
		Of           string   `json:"of"`
		Texts        []string `json:"texts"`
	}{call.ID, call.Key, call.Organization, call.Project, call.Model, of, call.Texts})
	if err != nil {
		return nil, err
	}
	header, err := c.signed(call.ID, body)
	if err != nil {
		return nil, err
	}
	var said struct {
		Flagged    *bool              `json:"flagged"`
		Categories map[string]float64 `json:"categories"`
		Found      []struct {
			Text     string `json:"text"`
			Category string `json:"category"`
		} `json:"found"`
	}
	if err := c.post(ctx, c.config.GetUrl(), header, body, &said); err != nil {
		return nil, err
	}
	if said.Flagged == nil {
		return nil, errReading
	}
	v := &Verdict{Flagged: *said.Flagged || len(said.Found) > 0, Flags: map[string]bool{}, Scores: said.Categories}
	for name := range said.Categories {
		v.Flags[name] = v.Flagged
	}
	for _, f := range said.Found {
		v.Flags[f.Category] = true
		v.Matches = append(v.Matches, Match{Text: f.Text, Category: f.Category})
	}
	return v, nil
}

// moderation asks an API of the form of https://platform.openai.com/docs/api-reference/moderations.
func (c *Checker) moderation(ctx context.Context, call *Call) (*Verdict, error) {
	asked := map[string]any{"input": call.Texts}
	if m := c.config.GetModel(); m != "" {
		asked["model"] = m
	}
	var said struct {
		Results []struct {
			Flagged    bool                `json:"flagged"`
			Categories map[string]*bool    `json:"categories"`
			Scores     map[string]*float64 `json:"category_scores"`
		} `json:"results"`
	}
	if err := c.post(ctx, c.config.GetUrl(), c.bearer(), asked, &said); err != nil {
		return nil, err
	}
	if len(said.Results) == 0 {
		return nil, errReading
	}
	v := &Verdict{Flags: map[string]bool{}, Scores: map[string]float64{}}
	for _, r := range said.Results {
		v.Flagged = v.Flagged || r.Flagged
		for name, flagged := range r.Categories {
			v.Flags[name] = v.Flags[name] || flagged != nil && *flagged
		}
		for name, score := range r.Scores {
			if score != nil {
				v.Scores[name] = max(v.Scores[name], *score)
			}
		}
	}
	return v, nil
}

// chat asks a model in a chat completion. It answers "safe", or "unsafe" and on the next line categories, as Llama
// Guard does: https://www.llama.com/docs/model-cards-and-prompt-formats/llama-guard-3/.
func (c *Checker) chat(ctx context.Context, call *Call) (*Verdict, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	if p := c.config.GetPrompt(); p != "" {
		messages = append(messages, message{"system", p})
	}
	messages = append(messages, message{"user", joined(call.Texts)})
	var said struct {
		Choices []struct {
			Message message `json:"message"`
		} `json:"choices"`
	}
	asked := map[string]any{"model": c.config.GetModel(), "messages": messages, "temperature": 0, "max_tokens": 100}
	if err := c.post(ctx, c.config.GetUrl(), c.bearer(), asked, &said); err != nil {
		return nil, err
	}
	if len(said.Choices) == 0 {
		return nil, errReading
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(said.Choices[0].Message.Content), "\n")
	v := &Verdict{Flags: map[string]bool{}}
	switch strings.ToLower(strings.Trim(word, " .")) {
	case "safe":
	case "unsafe":
		v.Flagged = true
		for name := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
			v.Flags[name] = true
		}
	default:
		return nil, errReading // what it says is no verdict
	}
	return v, nil
}

// Azure AI Content Safety takes texts of up to 10,000 characters:
// https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/analyze-text.
const (
	azureText    = 10_000
	azureVersion = "?api-version=2024-09-01"
	// azureSeverity is from where on a text is flagged: medium, of 0, 2, 4 and 6.
	azureSeverity = 4
)

func (c *Checker) azure(ctx context.Context, operation string, asked, answer any) error {
	h := http.Header{"Ocp-Apim-Subscription-Key": {c.config.GetCredential().GetValue()}}
	url := strings.TrimRight(c.config.GetUrl(), "/") + "/contentsafety/text:" + operation + azureVersion
	return c.post(ctx, url, h, asked, answer)
}

// azureText asks how harmful texts are.
func (c *Checker) azureText(ctx context.Context, call *Call) (*Verdict, error) {
	v := &Verdict{Flags: map[string]bool{}, Scores: map[string]float64{}}
	var mu sync.Mutex // guards v
	err := eachPiece(ctx, call, azureText, func(ctx context.Context, piece string) error {
		var said struct {
			Analysis []struct {
				Category string  `json:"category"`
				Severity float64 `json:"severity"`
			} `json:"categoriesAnalysis"`
		}
		if err := c.azure(ctx, "analyze", map[string]string{"text": piece}, &said); err != nil {
			return err
		}
		if said.Analysis == nil {
			return errReading
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range said.Analysis {
			v.Scores[a.Category] = max(v.Scores[a.Category], a.Severity)
			v.Flags[a.Category] = v.Scores[a.Category] >= azureSeverity
			v.Flagged = v.Flagged || v.Flags[a.Category]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// azureShield asks whether texts are an attack on the model:
// https://learn.microsoft.com/en-us/rest/api/contentsafety/text-operations/detect-text-jailbreak.
func (c *Checker) azureShield(ctx context.Context, call *Call) (*Verdict, error) {
	var attacked atomic.Bool
	err := eachPiece(ctx, call, azureText, func(ctx context.Context, piece string) error {
		var said struct {
			Analysis *struct {
				Attack bool `json:"attackDetected"`
			} `json:"userPromptAnalysis"`
		}
		asked := map[string]any{"userPrompt": piece, "documents": []string{}}
		if err := c.azure(ctx, "shieldPrompt", asked, &said); err != nil {
			return err
		}
		if said.Analysis == nil {
			return errReading
		}
		if said.Analysis.Attack {
			attacked.Store(true)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Verdict{Flagged: attacked.Load(), Flags: map[string]bool{"attack": attacked.Load()}}, nil
}

// eachPiece calls ask for pieces of texts of at most so many characters, some at once. They overlap, so that what is
// said around a cut is seen as a whole.
func eachPiece(ctx context.Context, call *Call, most int, ask func(ctx context.Context, piece string) error) error {
	const atOnce, overlap = 8, 500
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(atOnce)
	text := []rune(joined(call.Texts))
	for from := 0; from == 0 || from+overlap < len(text); from += most - overlap {
		piece := string(text[from:min(from+most, len(text))])
		asking.Go(safely(func() error { return ask(ctx, piece) }))
	}
	return asking.Wait()
}
