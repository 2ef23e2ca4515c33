-- +goose Up
-- Requests in which a rule of a guardrail or of a policy has found something, or that one has refused. Searches and sums
-- of them read nothing else, and those of an organization nothing of others. In JSON a quote of a text is escaped, so
-- that no text looks like the member.
CREATE INDEX exchanges_found ON exchanges (at, id)
  WHERE (details LIKE '%"guards":[%' OR refused_by LIKE 'guardrail %' OR refused_by LIKE 'policy %');
CREATE INDEX exchanges_found_of ON exchanges (organization, at, id)
  WHERE (details LIKE '%"guards":[%' OR refused_by LIKE 'guardrail %' OR refused_by LIKE 'policy %');

-- +goose Down
DROP INDEX exchanges_found_of;
DROP INDEX exchanges_found;
