-- +goose Up
-- What a refused request has beside the columns of others; both are empty where nothing was refused.
ALTER TABLE exchanges ADD COLUMN refused_by TEXT NOT NULL DEFAULT '';
ALTER TABLE exchanges ADD COLUMN key_hint TEXT NOT NULL DEFAULT '';
CREATE INDEX exchanges_refused ON exchanges (at) WHERE refused_by <> '';

-- The attempts of exchanges that had several, or whose only one failed. The exchange tells the rest.
CREATE TABLE attempts (
  exchange TEXT NOT NULL,
  number SMALLINT NOT NULL,
  -- When the exchange began, in microseconds.
  at BIGINT NOT NULL,
  kind TEXT NOT NULL,
  provider TEXT NOT NULL,
  upstream_model TEXT NOT NULL,
  status BIGINT NOT NULL,
  error TEXT NOT NULL,
  start_ms BIGINT NOT NULL,
  first_byte_ms BIGINT NOT NULL,
  duration_ms BIGINT NOT NULL,
  PRIMARY KEY (exchange, number)
);
CREATE INDEX attempts_at ON attempts (at);

-- Sums of the attempts at a provider, by their begin: of a minute (width 60) and of an hour (width 3600), in seconds.
CREATE TABLE provider_attempts (
  width SMALLINT NOT NULL,
  start BIGINT NOT NULL,
  provider TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  rate_limited BIGINT NOT NULL,
  -- How many attempts took how long; see latency.go.
  first_byte_0 BIGINT NOT NULL DEFAULT 0,
  first_byte_1 BIGINT NOT NULL DEFAULT 0,
  first_byte_2 BIGINT NOT NULL DEFAULT 0,
  first_byte_3 BIGINT NOT NULL DEFAULT 0,
  first_byte_4 BIGINT NOT NULL DEFAULT 0,
  first_byte_5 BIGINT NOT NULL DEFAULT 0,
  first_byte_6 BIGINT NOT NULL DEFAULT 0,
  first_byte_7 BIGINT NOT NULL DEFAULT 0,
  first_byte_8 BIGINT NOT NULL DEFAULT 0,
  first_byte_9 BIGINT NOT NULL DEFAULT 0,
  first_byte_10 BIGINT NOT NULL DEFAULT 0,
  first_byte_11 BIGINT NOT NULL DEFAULT 0,
  first_byte_12 BIGINT NOT NULL DEFAULT 0,
  first_byte_13 BIGINT NOT NULL DEFAULT 0,
  first_byte_14 BIGINT NOT NULL DEFAULT 0,
  first_byte_15 BIGINT NOT NULL DEFAULT 0,
  first_byte_16 BIGINT NOT NULL DEFAULT 0,
  first_byte_17 BIGINT NOT NULL DEFAULT 0,
  first_byte_18 BIGINT NOT NULL DEFAULT 0,
  first_byte_19 BIGINT NOT NULL DEFAULT 0,
  duration_0 BIGINT NOT NULL DEFAULT 0,
  duration_1 BIGINT NOT NULL DEFAULT 0,
  duration_2 BIGINT NOT NULL DEFAULT 0,
  duration_3 BIGINT NOT NULL DEFAULT 0,
  duration_4 BIGINT NOT NULL DEFAULT 0,
  duration_5 BIGINT NOT NULL DEFAULT 0,
  duration_6 BIGINT NOT NULL DEFAULT 0,
  duration_7 BIGINT NOT NULL DEFAULT 0,
  duration_8 BIGINT NOT NULL DEFAULT 0,
  duration_9 BIGINT NOT NULL DEFAULT 0,
  duration_10 BIGINT NOT NULL DEFAULT 0,
  duration_11 BIGINT NOT NULL DEFAULT 0,
  duration_12 BIGINT NOT NULL DEFAULT 0,
  duration_13 BIGINT NOT NULL DEFAULT 0,
  duration_14 BIGINT NOT NULL DEFAULT 0,
  duration_15 BIGINT NOT NULL DEFAULT 0,
  duration_16 BIGINT NOT NULL DEFAULT 0,
  duration_17 BIGINT NOT NULL DEFAULT 0,
  duration_18 BIGINT NOT NULL DEFAULT 0,
  duration_19 BIGINT NOT NULL DEFAULT 0,
  -- Of the last failed attempt. Times are microseconds; 0: none failed.
  last_error TEXT NOT NULL,
  last_error_at BIGINT NOT NULL,
  -- Until when the provider is left alone, as an attempt told. Microseconds; 0: no attempt told.
  cooling_until BIGINT NOT NULL,
  PRIMARY KEY (width, start, provider)
);

-- +goose Down
DROP TABLE provider_attempts;
DROP TABLE attempts;
DROP INDEX exchanges_refused;
ALTER TABLE exchanges DROP COLUMN key_hint;
ALTER TABLE exchanges DROP COLUMN refused_by;
