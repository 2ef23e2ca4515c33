package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// A usagePage is a page of OpenAI's usage and cost endpoints, as far as it is read.
type usagePage struct {
	Data []struct {
		Results []usageResult `json:"results"`
	} `json:"data"`
	HasMore bool   `json:"has_more"`
	Next    string `json:"next_page"`
}

type usageResult struct {
	Requests int64  `json:"num_model_requests"`
	Input    int64  `json:"input_tokens"`
	Output   int64  `json:"output_tokens"`
	Key      string `json:"api_key_id"`
	Project  string `json:"project_id"`
	Owner    string `json:"organization_id"`
	User     string `json:"user_id"`
	Model    string `json:"model"`
	Item     string `json:"line_item"` // of costs: the model
	Amount   struct {
		Value json.Number `json:"value"`
	} `json:"amount"`
}

func (r usageResult) name(by string) string {
	project := r.Project
	if project != "" && r.Owner != "" {
		project = r.Owner + "/" + project
	}
	return map[string]string{"key": r.Key, "organization": r.Owner, "project": project, "user": r.User,
		"model": cmp.Or(r.Model, r.Item)}[by]
}

// resources are those of OpenAI's usage endpoints; what each counts is in no other.
func resources() []string {
	return []string{"completions", "embeddings", "moderations", "images", "audio_speeches", "audio_transcriptions"}
}

// groupFields are the fields of OpenAI's endpoints, and the gateway's own of organizations, that a sum is split by.
func groupFields(by string) []string {
	return map[string][]string{"model": {"model"}, "key": {"api_key_id"}, "organization": {"organization_id"},
		"project": {"organization_id", "project_id"}, "user": {"user_id"}}[by]
}

// grouped returns the rows by model, key, project, organization or user.
func (c UsageCmd) grouped(ctx context.Context, client *adminapi.Client, start, end time.Time) ([]usageRow, error) {
	owned := c.By == "organization" || c.By == "project"
	if c.Model != "" || c.Organization != "" && !owned {
		return nil,
			admincli.Misused("--model needs --by day or --by provider; --organization needs one of these, --by organization or --by project")
	}
	query := url.Values{
		"start_time": {strconv.FormatInt(start.Unix(), 10)}, "end_time": {strconv.FormatInt(end.Unix(), 10)},
		"bucket_width": {"1d"}, "limit": {"31"},
		"group_by": groupFields(c.By),
	}
	for name, value := range map[string]string{"api_key_ids": c.Key, "project_ids": c.Project} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var rows []usageRow
	for _, resource := range resources() {
		found, err := c.results(ctx, client, resource, query)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	switch c.By {
	case "user":
		return merge(rows), nil // OpenAI's costs know no users
	case "model":
		query.Set("group_by", "line_item")
	}
	costs, err := c.results(ctx, client, "costs", query)
	return merge(append(rows, costs...)), err
}

// results reads all pages of a query.
func (c UsageCmd) results(ctx context.Context, client *adminapi.Client, resource string, query url.Values) ([]usageRow,
	error) {
	var rows []usageRow
	for page := ""; ; {
		if query.Del("page"); page != "" {
			query.Set("page", page)
		}
		text, err := client.Usage(ctx, resource, query)
		if err != nil {
			return nil, err
		}
		var answer usagePage
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, fmt.Errorf("reading the usage: %w", err)
		}
		for _, bucket := range answer.Data {
			for _, r := range bucket.Results {
				if c.Organization != "" && r.Owner != c.Organization {
					continue
				}
				row := rowOf(r.name(c.By), adminapi.Totals{Requests: r.Requests, InputTokens: r.Input, OutputTokens: r.Output,
					CostUSD: r.Amount.Value.String()})
				rows = append(rows, row)
			}
		}
		if !answer.HasMore || answer.Next == "" || answer.Next == page {
			return rows, nil
		}
		page = answer.Next
	}
}
