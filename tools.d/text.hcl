toolset "text" {
  description = "Measure and compare texts."
}

tool "text_stats" {
  description = "Measure a text exactly: characters, words, sentences, lines, paragraphs, reading time, most frequent words, sha256. Use it instead of counting yourself."
  emoji       = "📏"
  effect      = "read"

  param "text" {
    type        = string
    description = "The text to measure"
  }
  param "top" {
    type        = integer
    description = "How many of the most frequent words to list"
    minimum     = 0
    maximum     = 100
    default     = 10
  }
  param "words_per_minute" {
    type        = integer
    description = "Reading speed for the reading time"
    minimum     = 1
    maximum     = 2000
    default     = 238
  }

  # The module gets no files, no network and no environment: nothing is granted.
  handler "wasm" {
    module = "text_stats.wasm"
  }
}

tool "diff" {
  description = "Compare two texts line by line, exactly: what was removed, what was added, as a unified diff that patch and git apply read. Use it to check an edit, or to see what changed between two versions."
  emoji       = "🔀"
  effect      = "read"

  param "old" {
    type        = string
    description = "The text before"
  }
  param "new" {
    type        = string
    description = "The text after"
  }
  param "old_name" {
    type        = string
    description = "Name of the text before, for the header of the diff"
    default     = "old"
    max_length  = 500
  }
  param "new_name" {
    type        = string
    description = "Name of the text after, for the header of the diff"
    default     = "new"
    max_length  = 500
  }
  param "context" {
    type        = integer
    description = "Unchanged lines to show around a change"
    minimum     = 0
    maximum     = 1000
    default     = 3
  }
  param "ignore_whitespace" {
    type        = bool
    description = "Whether lines that differ only in white space are equal"
    default     = false
  }
  param "ignore_case" {
    type        = bool
    description = "Whether lines that differ only in upper and lower case are equal"
    default     = false
  }
  param "format" {
    type        = string
    description = "unified: a text for patch or git apply; hunks: the same as JSON; stats: only how much changed"
    enum        = ["unified", "hunks", "stats"]
    default     = "unified"
  }

  handler "wasm" {
    module = "diff.wasm"
    limits {
      memory = "128MiB"
      input  = "4MiB"
    }
  }
}
