toolset "data" {
  description = "Ask questions of JSON and CSV."
}

tool "json_query" {
  description = "Pick values out of JSON with a JSONPath query (RFC 9535): paths, wildcards, slices, filters. Give the JSON as data or as text."
  emoji       = "🧩"
  effect      = "read"

  param "query" {
    type        = string
    description = "JSONPath, for example $.items[?@.price < 10].name, $..id or $.rows[-3:]. Functions in filters: length(), count(), match(), search(), value()"
    max_length  = 4096
  }
  param "data" {
    type        = any
    description = "The JSON value to query"
    required    = false
  }
  param "text" {
    type        = string
    description = "The JSON value as text, for example the content of a file"
    required    = false
  }
  param "paths" {
    type        = bool
    description = "Also give the path of every value"
    default     = false
  }
  param "limit" {
    type        = integer
    description = "Return at most this many values; the count is of all"
    minimum     = 1
    maximum     = 10000
    default     = 1000
  }

  handler "wasm" {
    module = "json_query.wasm"
    limits {
      memory = "128MiB"
      input  = "4MiB"
    }
  }
}

tool "csv_query" {
  description = "Filter, group, aggregate, sort and select rows of a CSV table, with exact sums. Give the table as text, at most a million cells."
  emoji       = "📊"
  effect      = "read"

  # A schema of its own, since conditions have a fixed list of operators.
  schema = jsondecode(file("csv_query.schema.json"))

  handler "wasm" {
    module = "csv_query.wasm"
    limits {
      memory = "128MiB"
      input  = "4MiB"
    }
  }
}
