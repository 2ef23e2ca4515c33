package httpapi

import (
	"net/http"
	"time"

	"github.com/modelgate/modelgate/api/openai"
)

// Spare refuses requests that are costly while shedding says that the process has no memory left for them.
func Spare(shedding func() bool, costly func(*http.Request) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if shedding() && costly(r) {
			WriteError(w, r, openai.CodeServerIsOverloaded.New("There is no memory left for this at the moment. Please try again later.").After(time.Second))
			return
		}
		next.ServeHTTP(w, r)
	})
}
