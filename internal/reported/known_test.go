package reported

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/recordings"
)

// uncounted are the numbers of usage that are no counts of what is charged: parts of a count whose price is that of
// the whole, times, amounts of money, and what guardrails of a vendor cost.
var uncounted = regexp.MustCompile(`_details\.(text|video)_tokens$|prediction_tokens$|_miss_tokens$` +
	`|citation_tokens$|cost|_time$|_ms$|latency|Latency|DurationMillis|^seed$|^prompt_audio_seconds$` +
	`|^audio_prompt_tokens$|^is_byok$|Policy(Image|Free)?Units$|automatedReasoningPolicies` +
	`|^num_(sources|server_side_tools)_used$|^context_details\.|^server_tool_use_details\.tool_calls` +
	`|^iterations\.|^usage\.|^usage_breakdown\.`)

// TestEveryCountOfRecordedUsageIsKnown: a count that a vendor reports is in the table, or it is known why it is not.
func TestEveryCountOfRecordedUsageIsKnown(t *testing.T) {
	counts := 0
	for _, vendor := range recordings.Vendors(t) {
		files := recordings.Of(t, vendor)
		require.NoError(t, fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.Contains(path, "response") {
				return err
			}
			body := string(recordings.Read(t, files, path))
			if gjson.Valid(body) {
				body = strings.Join(strings.Fields(body), " ")
			}
			for line := range strings.Lines(body) {
				if i := strings.IndexAny(line, "{["); i >= 0 {
					counts += usages(t, vendor+"/"+path, gjson.Parse(line[i:]))
				}
			}
			return nil
		}))
	}
	require.Greater(t, counts, 1000)
}

// usages checks the counts of all objects of usage within a value, and returns how many there are.
func usages(t *testing.T, path string, v gjson.Result) (counts int) {
	if !v.IsObject() && !v.IsArray() {
		return 0
	}
	v.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "usage", "usageMetadata", "usage_metadata", "meta", "tool_usage":
			if value.IsObject() {
				counts += leaves(t, path, "", value)
				return true
			}
		}
		counts += usages(t, path, value)
		return true
	})
	return counts
}

func leaves(t *testing.T, path, at string, v gjson.Result) (counts int) {
	v.ForEach(func(name, value gjson.Result) bool {
		inner := at
		if !v.IsArray() {
			inner = strings.TrimPrefix(at+"."+name.Str, ".")
		}
		if value.IsObject() || value.IsArray() {
			counts += leaves(t, path, inner, value)
			return true
		}
		if _, known := forms[inner]; value.Type == gjson.Number && !known && !uncounted.MatchString(inner) {
			t.Errorf("%s: %s is %s", path, inner, value.Raw)
		}
		counts++
		return true
	})
	return counts
}
