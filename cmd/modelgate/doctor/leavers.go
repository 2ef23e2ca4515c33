package doctor

import adminapi "github.com/modelgate/modelgate/api/admin"

// checkLeavers looks at what people have left who are gone.
func checkLeavers(p *patient) (found []Finding) {
	for _, a := range p.attention {
		switch a.Kind {
		case adminapi.AttentionKeysOfLeaver:
			found = append(found, Finding{Severity: Warning, What: a.Message,
				Why:  "A key in the hands of somebody who has left works for them, and one that ended may be missed.",
				Mend: "modelgate key enable ID, to take it over; or modelgate key revoke ID"})
		case adminapi.AttentionTokensOfLeaver:
			found = append(found, Finding{Severity: Warning, What: a.Message,
				Why:  "A token never has more rights than the account that made it. What uses it gets 401 or 403.",
				Mend: "modelgate token create, and modelgate token revoke ID"})
		}
	}
	return found
}
