-- What tools keep between calls. used is the sum of the sizes of the keys and values of
-- its space, so that a quota is checked without reading them.
CREATE TABLE kv_spaces (
    num       INTEGER PRIMARY KEY,
    owner     TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    used      INTEGER NOT NULL CHECK (used >= 0),
    UNIQUE (owner, namespace)
) STRICT;

CREATE TABLE kv (
    space   INTEGER NOT NULL REFERENCES kv_spaces (num) ON DELETE CASCADE,
    key     BLOB    NOT NULL, -- UTF-8, in the order of its bytes
    owner   TEXT    NOT NULL,
    value   BLOB    NOT NULL,
    updated INTEGER NOT NULL,
    UNIQUE (space, key)
) STRICT;
