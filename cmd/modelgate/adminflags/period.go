package adminflags

import (
	"strconv"
	"time"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// ParsePeriod reads the flags --since and --until.
func ParsePeriod(since, until string, now time.Time) (start, end time.Time, err error) {
	if start, err = ParseSince("--since", since, now); err == nil {
		end, err = ParseSince("--until", until, now)
	}
	return start, end, err
}

// ParseSince reads a time, or how long before now, in which d is a day.
func ParseSince(flag, s string, now time.Time) (time.Time, error) {
	if days, ok := daysOf(s); ok {
		return now.Add(-time.Duration(days) * 24 * time.Hour), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{},
		admincli.Misused("%s is neither a time such as 2026-11-01T00:00:00Z or 2026-11-01 nor a duration such as 24h or 7d",
			flag)
}

// daysOf reads such as 7d.
func daysOf(s string) (int, bool) {
	if len(s) < 2 || s[len(s)-1] != 'd' {
		return 0, false
	}
	n, err := strconv.Atoi(s[:len(s)-1])
	return n, err == nil && n >= 0 && n <= 36500
}
