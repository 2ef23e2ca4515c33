package offered

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// UserOf returns the user that a request names, in any dialect: "user", or else "safety_identifier", which replaced it
// in OpenAI's, or else "user_id" of "metadata". Policies, limits and the ledger all mean this one. The body was
// checked.
func UserOf(body []byte) string {
	at := begin(body)
	if at < 0 {
		return ""
	}
	var user, safety, metadata []byte
	jsonwalk.Object(body, at, func(name, nameEnd, start int) int {
		end := jsonwalk.Value(body, start)
		switch string(text(body[name:nameEnd])) {
		case "user":
			user = body[start:end]
		case "safety_identifier":
			safety = body[start:end]
		case "metadata":
			metadata = body[start:end]
		}
		return end
	})
	return userOf(user, safety, metadata)
}

// UserIn is UserOf for a body whose members were found before.
func UserIn(get func(name string) []byte) string {
	return userOf(get("user"), get("safety_identifier"), get("metadata"))
}

func userOf(user, safety, metadata []byte) string {
	for _, named := range [...][]byte{user, safety} {
		if v := gjson.ParseBytes(named); v.Type == gjson.String && v.Str != "" {
			return v.Str
		}
	}
	if v := gjson.GetBytes(metadata, "user_id"); v.Type == gjson.String {
		return v.Str
	}
	return ""
}
