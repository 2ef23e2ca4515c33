-- +goose Up
-- The tenants ("organization" or "organization/project") whose people see an entry of the audit log. Where partial is 1
-- they see own_diff in the place of its difference, and where own_action is not empty that in the place of its action.
-- inside is 1 if the actor acted within the tenant.
CREATE TABLE audit_tenants (
  tenant TEXT NOT NULL,
  entry TEXT NOT NULL,
  inside SMALLINT NOT NULL,
  partial SMALLINT NOT NULL,
  own_action TEXT NOT NULL,
  own_diff TEXT NOT NULL,
  PRIMARY KEY (tenant, entry)
);

-- +goose Down
DROP TABLE audit_tenants;
