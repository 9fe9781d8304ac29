-- The bytes of stored results, which any server may be asked for. Rows of results name them.
CREATE TABLE contents (
    digest text   COLLATE "C" PRIMARY KEY, -- hex sha256 of the body
    body   bytea  NOT NULL,
    held   bigint NOT NULL -- when it was last stored
);
ALTER TABLE contents ALTER COLUMN body SET STORAGE EXTERNAL;
