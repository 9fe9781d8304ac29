-- Summaries that stand for messages in what models are sent.
CREATE TABLE compactions (
    num     INTEGER PRIMARY KEY, -- in the order they were made
    session INTEGER NOT NULL REFERENCES sessions (num) ON DELETE CASCADE,
    first   INTEGER NOT NULL CHECK (first > 0),
    last    INTEGER NOT NULL CHECK (last >= first),
    text    TEXT    NOT NULL,
    run     TEXT    NOT NULL,
    step    TEXT    NOT NULL,
    nth     INTEGER NOT NULL,
    poor    INTEGER NOT NULL,
    owner   TEXT    NOT NULL,
    created INTEGER NOT NULL,
    UNIQUE (session, run, step)
) STRICT;
