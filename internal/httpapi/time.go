package httpapi

import (
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// MaxUnix is the beginning of the year 9999: what ends an hour or a month later still is a time that JSON can say.
const MaxUnix = 253370764800

// UnixTime reads a parameter that is a time in Unix seconds.
func UnixTime(name, value string) (time.Time, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > MaxUnix {
		return time.Time{}, openai.CodeInvalidValue.On(name,
			"The parameter %s must be a time in Unix seconds.", name)
	}
	return time.Unix(n, 0).UTC(), nil
}
