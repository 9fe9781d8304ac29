-- What was live. A generation is prepared (live = 0) before it goes live and confirmed
-- after. highest is the largest number ever used; that of a generation which was
-- prepared and abandoned, or dropped, is not given to another. It begins above the
-- numbers that rows of before bear.
CREATE TABLE history (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    owner   TEXT    NOT NULL,
    highest INTEGER NOT NULL,
    secret  BLOB -- the key of digests of sensitive values; NULL: not made yet
) STRICT;
INSERT INTO history (one, owner, highest) VALUES (1, 'operator', max(
    (SELECT coalesce(max(generation), 0) FROM runs), (SELECT coalesce(max(generation), 0) FROM messages)));

CREATE TABLE generations (
    number   INTEGER PRIMARY KEY CHECK (number > 0),
    parent   INTEGER NOT NULL, -- 0: none
    owner    TEXT    NOT NULL, -- who asked
    cause    TEXT    NOT NULL,
    prepared INTEGER NOT NULL,
    live     INTEGER NOT NULL, -- 0: not known to have been
    bytes    INTEGER NOT NULL, -- what it added to the history
    inputs   TEXT    NOT NULL,
    diff     TEXT,
    meta     TEXT    NOT NULL  -- digest of a body; empty: none
) STRICT;
CREATE UNIQUE INDEX generations_prepared ON generations (live) WHERE live = 0;
CREATE INDEX generations_by_size ON generations (number, bytes);
CREATE INDEX generations_by_meta ON generations (meta);

-- An input or an object is in the generations from from_gen up to, and without, to_gen;
-- NULL: in every later one so far. Adding a generation so writes what changed only, and
-- undoing it is deleting what begins with it and opening what ends with it.
CREATE TABLE generation_inputs (
    path     TEXT    NOT NULL,
    from_gen INTEGER NOT NULL,
    to_gen   INTEGER CHECK (to_gen > from_gen),
    owner    TEXT    NOT NULL,
    digest   TEXT    NOT NULL,
    size     INTEGER NOT NULL,
    module   INTEGER NOT NULL CHECK (module IN (0, 1)), -- the content is in a file of its own
    absent   INTEGER NOT NULL CHECK (absent IN (0, 1)), -- there was no such file
    PRIMARY KEY (path, from_gen)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX generation_inputs_open ON generation_inputs (path) WHERE to_gen IS NULL;
CREATE INDEX generation_inputs_from ON generation_inputs (from_gen);
CREATE INDEX generation_inputs_to ON generation_inputs (to_gen) WHERE to_gen IS NOT NULL;
CREATE INDEX generation_inputs_digest ON generation_inputs (digest);

CREATE TABLE generation_objects (
    num      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL,
    from_gen INTEGER NOT NULL,
    to_gen   INTEGER CHECK (to_gen > from_gen),
    owner    TEXT    NOT NULL,
    digest   TEXT    NOT NULL,
    packed   INTEGER NOT NULL CHECK (packed IN (0, 1)), -- the body is deflated
    body     BLOB    NOT NULL,
    UNIQUE (id, from_gen)
) STRICT;
CREATE UNIQUE INDEX generation_objects_open ON generation_objects (id) WHERE to_gen IS NULL;
CREATE INDEX generation_objects_from ON generation_objects (from_gen);
CREATE INDEX generation_objects_to ON generation_objects (to_gen) WHERE to_gen IS NOT NULL;

-- Texts of inputs, and metas, once each.
CREATE TABLE generation_bodies (
    digest TEXT    PRIMARY KEY NOT NULL, -- hex sha256 of the text
    owner  TEXT    NOT NULL, -- who was first
    packed INTEGER NOT NULL CHECK (packed IN (0, 1)),
    body   BLOB    NOT NULL
) STRICT;
