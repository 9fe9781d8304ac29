toolset "text" {
  description = "Measure text."
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
