-- +goose Up
-- What left its normal state. Times are in microseconds. Closed is 0 while it is open; version counts its changes.
CREATE TABLE incidents (
  id TEXT NOT NULL PRIMARY KEY,
  subject TEXT NOT NULL,
  opened BIGINT NOT NULL,
  closed BIGINT NOT NULL,
  severity TEXT NOT NULL,
  version BIGINT NOT NULL,
  -- The incident as JSON, without its transitions and notes.
  document TEXT NOT NULL
);
CREATE UNIQUE INDEX incidents_open ON incidents (subject) WHERE closed = 0;
CREATE INDEX incidents_opened ON incidents (opened);

CREATE TABLE incident_transitions (
  incident TEXT NOT NULL,
  -- The version of the incident that the transition has made.
  version BIGINT NOT NULL,
  at BIGINT NOT NULL,
  state TEXT NOT NULL,
  kind TEXT NOT NULL,
  severity TEXT NOT NULL,
  why TEXT NOT NULL,
  PRIMARY KEY (incident, version)
);

CREATE TABLE incident_notes (
  id TEXT NOT NULL PRIMARY KEY,
  incident TEXT NOT NULL,
  at BIGINT NOT NULL,
  author TEXT NOT NULL,
  acknowledged BIGINT NOT NULL,
  note TEXT NOT NULL
);
CREATE INDEX incident_notes_incident ON incident_notes (incident);

-- +goose Down
DROP TABLE incident_notes;
DROP TABLE incident_transitions;
DROP TABLE incidents;
