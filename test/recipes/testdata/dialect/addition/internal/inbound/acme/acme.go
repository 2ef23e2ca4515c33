// Package acme is the dialect of the recipe's test. A client asks a question, and errors are one text.
package acme

import (
	"github.com/go-json-experiment/json"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	dialect "github.com/modelgate/modelgate/internal/inbound/openai"
)

// Dialect is the API.
var Dialect = &inbound.Dialect{
	Name: "acme",
	Operations: []*inbound.Operation{{Path: "/v1/acme/questions", Name: "acme/questions",
		Required: "'model' and 'question'", Subject: "question", TextAnswer: true, Parse: parse,
		Document: dialect.NewChatDocument}},
	KeyHeader:        "x-acme-key",
	Header:           "x-acme-version",
	AppendError:      appendError,
	AppendErrorEvent: appendError,
}

func appendError(dst []byte, e *openai.Error) []byte {
	return append(openai.AppendString(append(dst, `{"failure":`...), e.Message), '}')
}

// parse makes a chat completion of a question.
func parse(h inbound.Head, body []byte) (inbound.Request, error) {
	var asked struct {
		Model    string `json:"model"`
		Question string `json:"question"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return inbound.Request{}, openai.CodeInvalidJSON.New("The body is no JSON.")
	}
	if asked.Question == "" {
		return inbound.Request{}, openai.CodeMissingRequiredParameter.On("question", "The question is missing.")
	}
	chat := openai.AppendString([]byte(`{"model":`), asked.Model)
	chat = openai.AppendString(append(chat, `,"messages":[{"role":"user","content":`...), asked.Question)
	return dialect.Dialect.Operations[0].Parse(h, append(chat, "}]}"...))
}
