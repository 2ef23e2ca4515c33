-- +goose Up
-- The same statements serve SQLite and PostgreSQL. Times of exchanges and of the audit log are microseconds since 1970, those of
-- aggregates and periods seconds; money is in nano-dollars; flags are 0 or 1.

CREATE TABLE exchanges (
  id TEXT NOT NULL PRIMARY KEY,
  request_id TEXT NOT NULL,
  at BIGINT NOT NULL,
  duration BIGINT NOT NULL,
  api_key TEXT NOT NULL,
  organization TEXT NOT NULL,
  project TEXT NOT NULL,
  user_id TEXT NOT NULL,
  operation TEXT NOT NULL,
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  upstream_model TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  stream SMALLINT NOT NULL,
  status BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  error_code TEXT NOT NULL,
  first_byte_ms BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  input_audio_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  output_audio_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  estimated SMALLINT NOT NULL,
  batch SMALLINT NOT NULL,
  cost BIGINT NOT NULL,
  priced SMALLINT NOT NULL,
  price_version TEXT NOT NULL,
  requests BIGINT NOT NULL
);
CREATE INDEX exchanges_at ON exchanges (at, id);
CREATE INDEX exchanges_api_key ON exchanges (api_key, at, id);
CREATE INDEX exchanges_organization ON exchanges (organization, at, id);
CREATE INDEX exchanges_model ON exchanges (model, at, id);
CREATE INDEX exchanges_provider ON exchanges (provider, at, id);
CREATE INDEX exchanges_outcome ON exchanges (outcome, at, id);
CREATE INDEX exchanges_user ON exchanges (user_id, at) WHERE user_id <> '';
CREATE INDEX exchanges_request_id ON exchanges (request_id);

-- Levels: 0 by hour, 1 by hour and key, 2 by day, 3 by hour, model and provider only. What a level
-- is not by is empty.
CREATE TABLE aggregates (
  level SMALLINT NOT NULL,
  start BIGINT NOT NULL,
  organization TEXT NOT NULL,
  project TEXT NOT NULL,
  api_key TEXT NOT NULL,
  model TEXT NOT NULL,
  upstream_model TEXT NOT NULL,
  provider TEXT NOT NULL,
  operation TEXT NOT NULL,
  batch SMALLINT NOT NULL,
  requests BIGINT NOT NULL,
  rejected BIGINT NOT NULL,
  errors BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  input_audio_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  output_audio_tokens BIGINT NOT NULL,
  images BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  -- How many finished exchanges took how long; see latency.go.
  latency_0 BIGINT NOT NULL DEFAULT 0,
  latency_1 BIGINT NOT NULL DEFAULT 0,
  latency_2 BIGINT NOT NULL DEFAULT 0,
  latency_3 BIGINT NOT NULL DEFAULT 0,
  latency_4 BIGINT NOT NULL DEFAULT 0,
  latency_5 BIGINT NOT NULL DEFAULT 0,
  latency_6 BIGINT NOT NULL DEFAULT 0,
  latency_7 BIGINT NOT NULL DEFAULT 0,
  latency_8 BIGINT NOT NULL DEFAULT 0,
  latency_9 BIGINT NOT NULL DEFAULT 0,
  latency_10 BIGINT NOT NULL DEFAULT 0,
  latency_11 BIGINT NOT NULL DEFAULT 0,
  latency_12 BIGINT NOT NULL DEFAULT 0,
  latency_13 BIGINT NOT NULL DEFAULT 0,
  latency_14 BIGINT NOT NULL DEFAULT 0,
  latency_15 BIGINT NOT NULL DEFAULT 0,
  latency_16 BIGINT NOT NULL DEFAULT 0,
  latency_17 BIGINT NOT NULL DEFAULT 0,
  latency_18 BIGINT NOT NULL DEFAULT 0,
  latency_19 BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (level, start, organization, project, api_key, model, upstream_model, provider, operation, batch)
);
CREATE INDEX aggregates_organization ON aggregates (level, organization, start);
CREATE INDEX aggregates_api_key ON aggregates (api_key, level, start) WHERE api_key <> '';

-- What was spent in the day ('d') or month ('m') that begins at start. changed grows with every change, in the order in which
-- changes become visible.
CREATE TABLE spent (
  subject TEXT NOT NULL,
  period TEXT NOT NULL,
  start BIGINT NOT NULL,
  cost BIGINT NOT NULL,
  changed BIGINT NOT NULL,
  PRIMARY KEY (subject, period, start)
);
CREATE INDEX spent_changed ON spent (changed);
CREATE INDEX spent_start ON spent (start);

-- The epoch tells this database from one that stood in its place, and changes is the last value of spent.changed.
CREATE TABLE ledger_state (
  name TEXT NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL
);

CREATE TABLE audit (
  id TEXT NOT NULL PRIMARY KEY,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  role TEXT NOT NULL,
  address TEXT NOT NULL,
  action TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  diff TEXT NOT NULL,
  request_id TEXT NOT NULL
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_object ON audit (kind, name, id);
CREATE INDEX audit_actor ON audit (actor, id);

-- +goose Down
DROP TABLE audit;
DROP TABLE ledger_state;
DROP TABLE spent;
DROP TABLE aggregates;
DROP TABLE exchanges;
