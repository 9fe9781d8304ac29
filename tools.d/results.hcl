toolset "results" {
  description = "Parts of results that were too large to show. Every agent has it, unless it says otherwise, while there is a result to read."
}

tool "result_read" {
  emoji = "📄"

  result {
    max_chars = 30000
  }

  handler "native" {
    function = "result.read"
  }
}
