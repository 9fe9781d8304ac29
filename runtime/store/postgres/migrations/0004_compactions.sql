-- Summaries that stand for messages in what models are sent.
CREATE TABLE compactions (
    num     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order they were made
    session bigint NOT NULL REFERENCES sessions (num) ON DELETE CASCADE,
    first   bigint NOT NULL CHECK (first > 0),
    last    bigint NOT NULL CHECK (last >= first),
    text    text   NOT NULL,
    run     text   COLLATE "C" NOT NULL,
    step    text   COLLATE "C" NOT NULL,
    nth     bigint NOT NULL,
    poor    bigint NOT NULL,
    owner   text   COLLATE "C" NOT NULL,
    created bigint NOT NULL,
    UNIQUE (session, run, step)
);
