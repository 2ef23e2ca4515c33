package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordsOfVendorsMeanTheSameEverywhere(t *testing.T) {
	for message, c := range map[string]struct {
		status, means int
		code          string
	}{
		"Prompt is too long: 9 tokens":                       {400, 400, "context_length_exceeded"},
		"Too many tokens: size limit exceeded by 9":          {400, 400, "context_length_exceeded"},
		"too many tokens: max tokens must be less than 4096": {400, 400, ""},
		"Too many tokens, please wait before trying again.":  {429, 429, "rate_limit_exceeded"},
		"Your credit balance is too low":                     {400, 429, "insufficient_quota"},
		"suspended due to insufficient balance":              {429, 429, "insufficient_quota"},
		"You exceeded your current quota":                    {429, 429, "rate_limit_exceeded"},
		"The engine is currently overloaded":                 {429, 503, "overloaded"},
		"Overloaded":                                         {500, 503, "overloaded"},
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens.":   {400, 400, "context_length_exceeded"},
		"Invalid request: Your request exceeded model token limit: 262144":                       {400, 400, "context_length_exceeded"},
		"Range of input length should be [1, 129024]":                                            {400, 400, "context_length_exceeded"},
		"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9":   {422, 400, "context_length_exceeded"},
		"The decoder prompt (length 5000) is longer than the maximum model length of 4096.":      {400, 400, "context_length_exceeded"},
		"The input (9 tokens) is longer than the model's context length (8 tokens).":             {400, 400, "context_length_exceeded"},
		"You have reached your specified API usage limits. You will regain access on 2026-12-01": {400, 429, "insufficient_quota"},
		"Account a is suspended, possibly due to reaching the monthly spending limit":            {412, 429, "insufficient_quota"},
		"Your prepayment credits are depleted.":                                                  {429, 429, "insufficient_quota"},
		"Content Exists Risk":                                                                    {400, 400, "content_filter"},
		"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_CSAM":                {403, 400, "content_filter"},
		"Output blocked by content filtering policy":                                             {400, 400, "content_filter"},
		"the function 'overloaded' is not among the tools":                                       {400, 400, ""},
		"invalid value: the field 'quota' has a wrong type":                                      {400, 400, ""},
	} {
		e := StatusError(c.status, nil, message)
		require.Equal(t, c.means, e.Status, message)
		require.Equal(t, c.code, string(e.Code), message)
	}
}
